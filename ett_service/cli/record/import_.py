"""``ett import``: logs of other programs, as events to the server or to standard output."""

import argparse
import json
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.output import shown, write_json, write_line
from ett_service.cli.remote import ask
from ett_service.importers import mlperf
from ett_service.importers.importer import Importer, Report, WireEvent, batches

FORMATS: Mapping[str, tuple[str, Importer]] = {
    "mlperf": ("result logs of MLPerf Training (:::MLLOG lines)", mlperf.read),
}
"""What each format is, and the function that reads it."""

_BATCH = 500
_PATIENCE_S = 1.0


@dataclass(slots=True)
class Sent:
    """What became of the events."""

    jobs: dict[str, None] = field(default_factory=dict)  #: names, in the order of their coming
    events: int = 0
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    codes: Counter[str] = field(default_factory=Counter)  #: why events were rejected


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("import", help="turn logs into events")
    formats = parser.add_subparsers(dest="format", metavar="FORMAT", required=True)
    for name, (summary, _) in FORMATS.items():
        asked = formats.add_parser(name, help=summary, description=f"Import {summary}.")
        asked.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="file or folder")
        asked.add_argument("--job", metavar="NAME", help="make all runs attempts of this job")
        asked.add_argument(
            "--dry-run", action="store_true", help="print the events, one a line; send nothing"
        )
        add_server(asked)
        add_json(asked)


def run(args: argparse.Namespace) -> int:
    """Read the logs, send what they say, and report what could not be read.

    Raises:
        Failure: where nothing could be read, or the server refused an event.
    """
    _, read = FORMATS[args.format]
    events, report = read(args.paths, args.job)
    sent = Sent()
    with _progress(report, sent):
        for batch in batches(_counted(events, sent), _BATCH):
            if args.dry_run:
                for event in batch:
                    print(json.dumps(event, ensure_ascii=False))
            else:
                _send(args, batch, sent)
    _complain(report)
    if not sent.events:
        raise Failure("nothing could be read", "Check that the paths are logs of this format.")
    if not args.dry_run:
        _summarize(args, report, sent)
    if sent.rejected:
        codes = ", ".join(f"{code} ({count})" for code, count in sent.codes.most_common())
        raise Failure(f"the server refused {sent.rejected} events: {codes}", "The others stand.")
    return Exit.DONE


def _counted(events: Iterator[WireEvent], sent: Sent) -> Iterator[WireEvent]:
    for event in events:
        sent.events += 1
        sent.jobs[event["job"]] = None
        yield event


def _send(args: argparse.Namespace, batch: list[WireEvent], sent: Sent) -> None:
    body = {"batch_id": str(uuid.uuid4()), "history": True, "events": batch}
    answer = ask(args, "/v1/events", method="POST", body=body)
    try:
        sent.accepted += answer["accepted"]
        sent.duplicate += answer["duplicate"]
        sent.rejected += answer["rejected"]
        sent.codes.update(error["code"] for error in answer["errors"])
    except (KeyError, TypeError):
        raise Failure(
            "what answered is not an ett server",
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


def _summarize(args: argparse.Namespace, report: Report, sent: Sent) -> None:
    told: dict[str, Any] = {**asdict(report), **asdict(sent), "jobs": list(sent.jobs)}
    if args.json:
        write_json(told)
        return
    for job in sent.jobs:
        write_line(job)
    print(
        f"{report.files} files, {len(sent.jobs)} jobs: {sent.accepted} events accepted, "
        f"{sent.duplicate} known already, {sent.rejected} refused",
        file=sys.stderr,
    )


@contextmanager
def _progress(report: Report, sent: Sent) -> Iterator[None]:
    """Show on a terminal how far it is, once that takes longer than people like to wait."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return

    def told() -> Text:
        return Text(f"{report.files} files, {report.records} records, {sent.events} events")

    live = Live(
        get_renderable=told,
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
