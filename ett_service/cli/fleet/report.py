"""``ett report``: a week of the fleet for chat and mail, and a gate for pipelines."""

import argparse
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ett_service.charts.units import percent
from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit
from ett_service.cli.output import write_json
from ett_service.cli.remote import PATIENT_S, ask
from ett_service.cli.window import add_scope, scope
from ett_service.report.document import Report, Week, html, markdown
from ett_service.report.inputs import gather
from ett_service.report.weekly import weekly

_WRITERS = {"md": markdown, "html": html}


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "report",
        help="write up a week of the fleet",
        epilog="Examples: `ett report`, `ett report --week 2026-W47 --format html -o week.html`.",
    )
    parser.add_argument(
        "--week", type=_week, help="an ISO week, as 2026-W47 (default: the last that is over)"
    )
    parser.add_argument("--by", default="model", metavar="DIMENSIONS", help="default model")
    add_scope(parser)
    parser.add_argument("--format", choices=tuple(_WRITERS), help="default md, or as FILE ends")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard out")
    parser.add_argument(
        "--fail-under",
        type=_ratio,
        metavar="RATIO",
        help="exit 3 if the week's ETT%% is less, as 0.9",
    )
    add_server(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the report; ``Exit.GATE`` where the week's ETT% is too low, or no job lived."""
    week = args.week or Week.holding(datetime.now(UTC)).before()
    by = [name.strip() for name in args.by.split(",") if name.strip()]
    gathered = gather(partial(_patiently, args), week, by, scope(args))
    report = weekly(gathered)
    if args.json:
        write_json({"week": week.name, "sentence": report.sentence, "total": gathered.now["total"]})
    else:
        _write(report, args)
    return Exit.DONE if args.fail_under is None else _gate(report, args.fail_under)


def _patiently(args: argparse.Namespace, path: str, query: Mapping[str, object]) -> Any:
    return ask(args, path, query, timeout_s=PATIENT_S)


def _write(report: Report, args: argparse.Namespace) -> None:
    ending = args.output.suffix.lstrip(".") if args.output else ""
    kind = args.format or ("html" if ending in {"html", "htm"} else "md")
    written = _WRITERS[kind](report)
    if args.output is None:
        sys.stdout.write(written)
        return
    args.output.write_text(written, "utf-8")
    print(f"{args.output}: {report.sentence}", file=sys.stderr)


def _gate(report: Report, least: float) -> Exit:
    if report.ett_ratio is not None and report.ett_ratio >= least:
        return Exit.DONE
    said = report.sentence
    if report.ett_ratio is not None:
        said = f"ETT {percent(report.ett_ratio)} of {report.week.name} is under {percent(least)}."
    print(f"The gate is not met: {said}", file=sys.stderr)
    return Exit.GATE


def _week(text: str) -> Week:
    try:
        return Week.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise argparse.ArgumentTypeError("a ratio from 0 to 1 is needed, as 0.9")
    return ratio
