"""``ett export``: lists of the service, and the history of its metrics, as files."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ett_service.cli.arguments import by, output, scope, scope_query, server, window, window_query
from ett_service.cli.metrics import openmetrics
from ett_service.cli.output import whole_file
from ett_service.cli.progress import counted
from ett_service.cli.remote import fetch, of_project, place
from ett_service.cli.verb import Failure, Verb
from ett_service.client.sending.transport import Response

_FORMATS = ("csv", "parquet", "json")
_NEXT_CURSOR = "ett-next-cursor"
_CSV_END = b"\r\n"

Query = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of the API: its path, the member that holds its rows, and its query."""

    path: str
    member: str
    summary: str
    query: Callable[[Namespace], Query]
    page: int | None = None  #: rows a page, where it has pages


def _of_job(args: Namespace) -> Query:
    return of_project(args)


def _of_fleet(args: Namespace) -> Query:
    return {**window_query(args), **scope_query(args), "group_by": args.by}


def _of_series(args: Namespace) -> Query:
    return {**_of_fleet(args), "step": args.step}


def _of_jobs(args: Namespace) -> Query:
    filters = dict(condition.split(":", 1) for condition in args.where if ":" in condition)
    if len(filters) < len(args.where):
        raise Failure(
            "jobs are filtered by one value of each member",
            "Write --where team:a --where state:finished; `ett jobs --help` lists the members.",
        )
    return {**window_query(args), **filters, "project": args.project, "sort": "job"}


LISTS: Mapping[str, Listing] = {
    "jobs": Listing("/v1/jobs", "jobs", "jobs with their numbers", _of_jobs, 1000),
    "attempts": Listing("/v1/jobs/{}/attempts", "attempts", "a job's attempts", _of_job),
    "segments": Listing("/v1/jobs/{}/ledger", "segments", "a job's time, cut by category", _of_job),
    "events": Listing("/v1/jobs/{}/events", "events", "what a job sent", _of_job, 10_000),
    "summary": Listing("/v1/fleet/summary", "groups", "the fleet's numbers", _of_fleet),
    "series": Listing("/v1/fleet/series", "points", "the same over time", _of_series),
}
"""What can be exported, by the word for it."""


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--job", help="the job of the attempts, segments or events")
    by(parser)
    parser.add_argument("--step", choices=("1h", "1d", "1w"), help="of a series (default 1d)")
    window(parser)
    scope(parser)
    parser.add_argument(
        "--format", choices=_FORMATS, help="default: by the ending of FILE, else csv"
    )
    output(parser)


def _export(args: Namespace) -> None:
    """Write the list; a FILE appears when it is complete, and not before."""
    form = args.format or _format_of(args.output)
    listing = LISTS[args.what]
    if ("{}" in listing.path) != bool(args.job):
        needs = "needs" if "{}" in listing.path else "takes no"
        raise Failure(f"`ett export {args.what}` {needs} --job", "`ett jobs` lists jobs.")
    pages = counted(_pages(args, listing, form), "pages read")
    if args.output is None:
        if form == "parquet" and sys.stdout.isatty():
            raise Failure("Parquet is binary, and stdout is a terminal", "Name a file with -o.")
        _WRITERS[form](pages, sys.stdout.buffer.write)
        sys.stdout.buffer.flush()
        return
    with whole_file(args.output) as file:
        _WRITERS[form](pages, file.write)


def _format_of(output: Path | None) -> str:
    ending = output.suffix.lstrip(".").lower() if output else ""
    return ending if ending in _FORMATS else "csv"


def _pages(args: Namespace, listing: Listing, form: str) -> Iterator["_Page"]:
    path = place(listing.path, args.job or "")
    query = {**listing.query(args), "format": form, "limit": listing.page}
    cursor = None
    while True:
        response = fetch(args, path, {**query, "cursor": cursor})
        yield _Page(response, listing.member)
        cursor = _next(response, form)
        if cursor is None:
            return


def _next(response: Response, form: str) -> str | None:
    if form != "json":
        return response.headers.get(_NEXT_CURSOR)
    cursor: str | None = json.loads(response.body).get("next_cursor")
    return cursor


@dataclass(frozen=True, slots=True)
class _Page:
    response: Response
    member: str


Write = Callable[[bytes], Any]


def _write_csv(pages: Iterator[_Page], write: Write) -> None:
    for index, page in enumerate(pages):
        head, end, rows = page.response.body.partition(_CSV_END)
        write(rows if index else head + end + rows)


def _write_json(pages: Iterator[_Page], write: Write) -> None:
    rows = [row for page in pages for row in _rows(page)]
    write(json.dumps(rows, indent=2, ensure_ascii=False).encode() + b"\n")


def _rows(page: _Page) -> list[Any]:
    answer = json.loads(page.response.body)
    if page.member == "groups" and not answer["group_by"]:
        return [answer["total"]]
    rows: list[Any] = answer[page.member]
    return rows


def _write_parquet(pages: Iterator[_Page], write: Write) -> None:
    import pyarrow as pa  # noqa: PLC0415 -- slow to import, and only this format needs it
    from pyarrow import parquet  # noqa: PLC0415

    tables = [parquet.read_table(pa.BufferReader(page.response.body)) for page in pages]
    whole = pa.BufferOutputStream()
    parquet.write_table(pa.concat_tables(tables), whole)
    write(whole.getvalue().to_pybytes())


_WRITERS: Mapping[str, Callable[[Iterator[_Page], Write], None]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "json": _write_json,
}


VERB = Verb(
    epilog="Examples: `ett export jobs -o jobs.parquet`, "
    "`ett export series --by team --step 1w -o weeks.csv`, "
    "`ett export segments --job llm-70b`.",
    acts_dest="what",
    acts={
        **{
            what: Verb(summary=listing.summary, options=(_options, server), run=_export)
            for what, listing in LISTS.items()
        },
        "openmetrics": openmetrics.ACT,
    },
)
