"""``ett export``: lists of the service, and the past of its metrics, as files."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ett_service.cli.arguments import add_server
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.metrics import openmetrics as export_openmetrics
from ett_service.cli.output import counted, whole_file
from ett_service.cli.remote import fetch
from ett_service.cli.window import add_by, add_scope, add_window, scope, window
from ett_service.client.transport import Response

_FORMATS = ("csv", "parquet", "json")
_NEXT_CURSOR = "ett-next-cursor"
_CSV_END = b"\r\n"

Query = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of the API: where it is, the member that holds its rows, and what it is asked with."""

    path: str
    member: str
    summary: str
    query: Callable[[argparse.Namespace], Query]
    page: int | None = None  #: rows a page, where it has pages


def _of_job(args: argparse.Namespace) -> Query:
    return {"project": args.project}


def _of_fleet(args: argparse.Namespace) -> Query:
    return {**window(args), **scope(args), "group_by": args.by}


def _of_series(args: argparse.Namespace) -> Query:
    return {**_of_fleet(args), "step": args.step}


def _of_jobs(args: argparse.Namespace) -> Query:
    filters = dict(condition.split(":", 1) for condition in args.where if ":" in condition)
    if len(filters) < len(args.where):
        raise Failure(
            "jobs are filtered by one value of a member",
            "As --where team:a --where state:finished; `ett jobs --help` lists the members.",
        )
    return {**window(args), **filters, "project": args.project, "sort": "job"}


LISTS: Mapping[str, Listing] = {
    "jobs": Listing("/v1/jobs", "jobs", "jobs with their numbers", _of_jobs, 1000),
    "attempts": Listing("/v1/jobs/{job}/attempts", "attempts", "a job's attempts", _of_job),
    "segments": Listing(
        "/v1/jobs/{job}/ledger", "segments", "a job's time, cut by category", _of_job
    ),
    "events": Listing("/v1/jobs/{job}/events", "events", "what a job sent", _of_job, 10_000),
    "summary": Listing("/v1/fleet/summary", "groups", "the fleet's numbers", _of_fleet),
    "series": Listing("/v1/fleet/series", "points", "the same over time", _of_series),
}
"""What can be exported, by the word for it."""


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "export",
        help="write lists, or the past of the metrics, to files",
        epilog="Examples: `ett export jobs -o jobs.parquet`, "
        "`ett export series --by team --step 1w -o weeks.csv`, "
        "`ett export segments --job llm-70b`.",
    )
    whats = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    for what, listing in LISTS.items():
        _add_list(whats.add_parser(what, help=listing.summary))
    export_openmetrics.add_parser(whats)


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--job", help="whose attempts, segments or events")
    add_by(parser)
    parser.add_argument("--step", choices=("1h", "1d", "1w"), help="of a series (default 1d)")
    add_window(parser)
    add_scope(parser)
    parser.add_argument("--format", choices=_FORMATS, help="default: as FILE ends, else csv")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard out")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Write what was asked for; a FILE is there when it is whole, and not before."""
    if args.what == export_openmetrics.WHAT:
        return export_openmetrics.run(args)
    form = args.format or _format_of(args.output)
    wanted = LISTS[args.what]
    if ("{job}" in wanted.path) != bool(args.job):
        needs = "needs" if "{job}" in wanted.path else "takes no"
        raise Failure(f"`ett export {args.what}` {needs} --job", "`ett jobs` lists jobs.")
    pages = counted(_pages(args, wanted, form), "pages read")
    if args.output is None:
        if form == "parquet" and sys.stdout.isatty():
            raise Failure("Parquet is not for a terminal", "Name a file with -o.")
        _WRITERS[form](pages, sys.stdout.buffer.write)
        sys.stdout.buffer.flush()
        return Exit.DONE
    with whole_file(args.output) as file:
        _WRITERS[form](pages, file.write)
    return Exit.DONE


def _format_of(output: Path | None) -> str:
    ending = output.suffix.lstrip(".").lower() if output else ""
    return ending if ending in _FORMATS else "csv"


def _pages(args: argparse.Namespace, wanted: Listing, form: str) -> Iterator["_Page"]:
    path = wanted.path.format(job=quote(args.job or "", safe=""))
    query = {**wanted.query(args), "format": form, "limit": wanted.page}
    cursor = None
    while True:
        answer = fetch(args, path, {**query, "cursor": cursor})
        yield _Page(answer, wanted.member)
        cursor = _next(answer, form)
        if cursor is None:
            return


def _next(answer: Response, form: str) -> str | None:
    if form != "json":
        return answer.headers.get(_NEXT_CURSOR)
    cursor: str | None = json.loads(answer.body).get("next_cursor")
    return cursor


@dataclass(frozen=True, slots=True)
class _Page:
    answer: Response
    member: str


Write = Callable[[bytes], Any]


def _write_csv(pages: Iterator[_Page], write: Write) -> None:
    for place, page in enumerate(pages):
        head, end, rows = page.answer.body.partition(_CSV_END)
        write(rows if place else head + end + rows)


def _write_json(pages: Iterator[_Page], write: Write) -> None:
    rows = [row for page in pages for row in _rows(page)]
    write(json.dumps(rows, indent=2, ensure_ascii=False).encode() + b"\n")


def _rows(page: _Page) -> list[Any]:
    answer = json.loads(page.answer.body)
    if page.member == "groups" and not answer["group_by"]:
        return [answer["total"]]
    rows: list[Any] = answer[page.member]
    return rows


def _write_parquet(pages: Iterator[_Page], write: Write) -> None:
    import pyarrow as pa  # noqa: PLC0415 -- takes a while, and only this format needs it
    from pyarrow import parquet  # noqa: PLC0415

    tables = [parquet.read_table(pa.BufferReader(page.answer.body)) for page in pages]
    whole = pa.BufferOutputStream()
    parquet.write_table(pa.concat_tables(tables), whole)
    write(whole.getvalue().to_pybytes())


_WRITERS: Mapping[str, Callable[[Iterator[_Page], Write], None]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "json": _write_json,
}
