"""``ett regressions confirm | tuning``: settle a finding by two runs, and learn from verdicts."""

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from ett_service.charts.units import cohort, count, factor
from ett_service.cli.arguments import ID, WHY, named, project, server
from ett_service.cli.output import minute, or_dash, write_line, write_prose
from ett_service.cli.remote import ask, of_project, place
from ett_service.cli.tables import Answer, number, prose, spare, text, write_rows
from ett_service.cli.verb import Failure, Verb, act
from ett_service.core.regressions.finding import Metric

_TUNING = "/v1/regressions/tuning"
_SHARED = (project, server)
_OUTCOMES = {
    "confirmed": "It is confirmed, and triaged as real.",
    "refuted": "It is refuted, and triaged as noise.",
    "open": "That settles nothing yet.",
}

_COLUMNS = (
    text("metric"),
    number("real", "real", count),
    number("noise", "noise", count),
    number("factor", "factor", factor),
    spare(text("reset (UTC)", "reset_at", lambda at: or_dash(at and minute(at)))),
    prose("why", "reset_why", or_dash),
)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--jobs",
        nargs=2,
        metavar=("BASE", "JOB"),
        help="settle it by these two jobs, the first without the change",
    )


def _confirm(args: Namespace) -> Any:
    path = place("/v1/regressions/{}", args.id)
    if args.jobs is None:
        return ask(args, f"{path}/experiment", of_project(args))
    base, job = args.jobs
    body = {"base_job": base, "job": job}
    return ask(args, f"{path}/confirm", of_project(args), method="POST", body=body)


def _write(answer: Answer, args: Namespace) -> None:
    if args.jobs is None:
        _write_experiment(answer, args)
    else:
        _write_outcome(answer)


def _write_experiment(answer: Answer, args: Namespace) -> None:
    alike = ", ".join(f"{name} {value}" for name, value in answer["alike"].items())
    before, after = answer["before"] or "what ran before", answer["after"] or "what runs now"
    write_prose(f"Launch two jobs in {cohort(answer['cohort'])}, alike in all else ({alike}):")
    write_line(f"  1. {answer['dimension']} {before}")
    write_line(f"  2. {answer['dimension']} {after}")
    starts, ratio, spread = answer["starts"], factor(answer["ratio"]), math.exp(answer["sigma"])
    write_prose(
        f"{count(starts)} starts of each show {ratio} in 80 of 100 cases. One start differs from "
        f"the next by a factor of {spread:.2f}."
    )
    write_line(f"Then: ett regressions confirm {args.id} --jobs JOB1 JOB2")


def _write_outcome(answer: Answer) -> None:
    low, high = answer["interval"]["low"], answer["interval"]["high"]
    write_prose(
        f"The second job takes {factor(answer['ratio'])} of the first (90% interval x {low:.2f} to "
        f"x {high:.2f}; n {count(answer['base_n'])} and {count(answer['n'])})."
    )
    write_prose(_OUTCOMES[answer["outcome"]])
    if answer["outcome"] == "open" and answer["more"]:
        write_prose(f"Start each {count(answer['more'])} times more for 80% power.")


def _tuning_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--reset",
        choices=[metric.value for metric in Metric],
        help="ignore the verdicts on this metric so far",
    )
    parser.add_argument("--why", help=WHY)


def _tuning(args: Namespace) -> Any:
    if args.reset is None:
        return ask(args, _TUNING, of_project(args))["tuning"]
    if not args.why:
        raise Failure("a reset needs its reason", "Name it with --why.")
    body: Mapping[str, str] = {"metric": args.reset, "why": args.why}
    return ask(args, f"{_TUNING}/reset", of_project(args), method="POST", body=body)["tuning"]


def _write_tuning(rows: list[Any], _args: Namespace) -> None:
    write_rows(_COLUMNS, rows, "No verdicts yet: the settings alone say which changes count.")
    if rows:
        write_prose("The smallest change that counts, less 1, is multiplied by the factor.")


ACTS: Mapping[str, Verb] = {
    "confirm": Verb(
        summary="say which two runs would settle a finding, or settle it by them",
        epilog="Examples: `ett regressions confirm ID`, `ett regressions confirm ID --jobs A B`.",
        options=(named("id", ID), _options, *_SHARED),
        run=_confirm,
        write=_write,
    ),
    "tuning": act(
        "show how verdicts move the smallest change that counts, or take that back",
        _tuning,
        _write_tuning,
        _tuning_options,
        *_SHARED,
    ),
}
"""The acts of ``ett regressions`` by which the search learns."""
