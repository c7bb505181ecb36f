"""``ett report``: a week of the fleet for chat and mail, and a gate for pipelines."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ett_service.charts.units import percent
from ett_service.cli.arguments import output, scope, scope_query, server
from ett_service.cli.remote import PATIENT_S, ask
from ett_service.cli.verb import Exit, Verb
from ett_service.report.document import Report, Week, html, markdown
from ett_service.report.inputs import gather
from ett_service.report.weekly import weekly

_WRITERS = {"md": markdown, "html": html}


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--week", type=_week, help="an ISO week, such as 2026-W47 (default: the last complete week)"
    )
    parser.add_argument("--by", default="model", metavar="DIMENSIONS", help="default model")
    parser.add_argument(
        "--format", choices=tuple(_WRITERS), help="default: by the ending of FILE, else md"
    )
    output(parser)
    parser.add_argument(
        "--fail-under",
        type=_ratio,
        metavar="RATIO",
        help="exit 3 if the week's ETT%% is lower, such as 0.9",
    )


@dataclass(frozen=True, slots=True)
class _Weekly:
    report: Report
    total: Any  #: the fleet's numbers, as the API answers them


def _report(args: Namespace) -> _Weekly:
    week = args.week or Week.holding(datetime.now(UTC)).before()
    by = [name.strip() for name in args.by.split(",") if name.strip()]
    gathered = gather(partial(_patiently, args), week, by, scope_query(args))
    return _Weekly(weekly(gathered), gathered.now["total"])


def _patiently(args: Namespace, path: str, query: Mapping[str, object]) -> Any:
    return ask(args, path, query, timeout_s=PATIENT_S)


def _as_json(answer: _Weekly) -> Mapping[str, Any]:
    report = answer.report
    return {"week": report.week.name, "sentence": report.sentence, "total": answer.total}


def _write(answer: _Weekly, args: Namespace) -> None:
    ending = args.output.suffix.lstrip(".") if args.output else ""
    kind = args.format or ("html" if ending in {"html", "htm"} else "md")
    document = _WRITERS[kind](answer.report)
    if args.output is None:
        sys.stdout.write(document)
        return
    args.output.write_text(document, "utf-8")
    print(f"{args.output}: {answer.report.sentence}", file=sys.stderr)


def _gate(answer: _Weekly, args: Namespace) -> Exit:
    """Fail where the week's ETT% is too low, or no job lived."""
    report, least = answer.report, args.fail_under
    if least is None or (report.ett_ratio is not None and report.ett_ratio >= least):
        return Exit.DONE
    reason = report.sentence
    if report.ett_ratio is not None:
        reason = f"ETT {percent(report.ett_ratio)} of {report.week.name} is under {percent(least)}."
    print(f"The gate failed: {reason}", file=sys.stderr)
    return Exit.GATE


def _week(text: str) -> Week:
    try:
        return Week.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ArgumentTypeError(f"{text!r} is not a ratio from 0 to 1, such as 0.9")
    return ratio


VERB = Verb(
    epilog="Examples: `ett report`, `ett report --week 2026-W47 --format html -o week.html`.",
    options=(_options, scope, server),
    run=_report,
    write=_write,
    as_json=_as_json,
    exit_code=_gate,
)
