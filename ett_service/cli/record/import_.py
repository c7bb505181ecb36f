"""``ett import``: logs of other programs, as events to the server or to standard output."""

import json
import sys
import uuid
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Timer

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ett_service.cli.arguments import server
from ett_service.cli.output import shown, write_json, write_line
from ett_service.cli.remote import ask
from ett_service.cli.verb import Failure, Verb, add_json
from ett_service.importers import mlperf
from ett_service.importers.importer import Importer, Report, WireEvent, batches

FORMATS: Mapping[str, tuple[str, Importer]] = {
    "mlperf": ("result logs of MLPerf Training (:::MLLOG lines)", mlperf.read),
}
"""What each format is, and the function that reads it."""

_BATCH = 500
_PATIENCE_S = 1.0


@dataclass(slots=True)
class Tally:
    """What became of the events that were read."""

    jobs: dict[str, None] = field(default_factory=dict)  #: names, in order of appearance
    events: int = 0
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    codes: Counter[str] = field(default_factory=Counter)  #: why events were rejected


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="file or folder")
    parser.add_argument("--job", metavar="NAME", help="make all runs attempts of this job")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the events, one a line; send nothing"
    )


def _import(args: Namespace) -> None:
    """Read the logs, send what they say, and report what could not be read.

    Raises:
        Failure: where nothing could be read, or the server refused an event.
    """
    _, read = FORMATS[args.format]
    events, report = read(args.paths, args.job)
    tally = Tally()
    with _progress(report, tally):
        for batch in batches(_counted(events, tally), _BATCH):
            if args.dry_run:
                for event in batch:
                    print(json.dumps(event, ensure_ascii=False))
            else:
                _send(args, batch, tally)
    _complain(report)
    if not tally.events:
        raise Failure("nothing could be read", "Check that the paths are logs of this format.")
    if not args.dry_run:
        _summarize(args, report, tally)
    if tally.rejected:
        codes = ", ".join(f"{code} ({count})" for code, count in tally.codes.most_common())
        raise Failure(
            f"the server refused {tally.rejected} events: {codes}", "The others are stored."
        )


def _counted(events: Iterator[WireEvent], tally: Tally) -> Iterator[WireEvent]:
    for event in events:
        tally.events += 1
        tally.jobs[event["job"]] = None
        yield event


def _send(args: Namespace, batch: list[WireEvent], tally: Tally) -> None:
    body = {"batch_id": str(uuid.uuid4()), "history": True, "events": batch}
    answer = ask(args, "/v1/events", method="POST", body=body)
    try:
        tally.accepted += answer["accepted"]
        tally.duplicate += answer["duplicate"]
        tally.rejected += answer["rejected"]
        tally.codes.update(error["code"] for error in answer["errors"])
    except (KeyError, TypeError):
        raise Failure(
            "the answer is not from an ett server",
            "Check --url and ETT_URL. Importing again is safe: events keep their ids.",
        ) from None


def _complain(report: Report) -> None:
    """Say on standard error what was not read, and what was read but not used."""
    lines = [*report.unread, *report.notes]
    if report.skipped:
        lines += [f"{report.skipped} lines were skipped, the first of them:"]
        lines += [f"  {line}" for line in report.first_skipped]
    for line in lines:
        print(f"ett: {shown(line)}", file=sys.stderr)


def _summarize(args: Namespace, report: Report, tally: Tally) -> None:
    if args.json:
        write_json({**asdict(report), **asdict(tally), "jobs": list(tally.jobs)})
        return
    for job in tally.jobs:
        write_line(job)
    print(
        f"{report.files} files, {len(tally.jobs)} jobs: {tally.accepted} events accepted, "
        f"{tally.duplicate} duplicates, {tally.rejected} refused",
        file=sys.stderr,
    )


@contextmanager
def _progress(report: Report, tally: Tally) -> Iterator[None]:
    """Show on a terminal how far it is, once that takes longer than people like to wait."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return

    def counts() -> Text:
        return Text(f"{report.files} files, {report.records} records, {tally.events} events")

    live = Live(
        get_renderable=counts,
        console=console,
        transient=True,
        redirect_stdout=False,  # it may be a pipe, and is data
        redirect_stderr=False,
    )
    patience = Timer(_PATIENCE_S, live.start)
    patience.start()
    try:
        yield
    finally:
        patience.cancel()
        patience.join()
        live.stop()


VERB = Verb(
    acts_dest="format",
    acts={
        name: Verb(
            summary=summary,
            description=f"Import {summary}.",
            options=(_options, server, add_json),
            run=_import,
        )
        for name, (summary, _) in FORMATS.items()
    },
)
