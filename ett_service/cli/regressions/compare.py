"""``ett regressions compare``: two sets of jobs side by side, and a gate on what got worse."""

import math
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from enum import StrEnum, auto
from typing import Any

from ett_service.charts.units import NONE, count, percent, points, value
from ett_service.cli.arguments import project, server, when
from ett_service.cli.output import write_line, write_prose
from ett_service.cli.remote import PATIENT_S, ask, of_project
from ett_service.cli.tables import (
    Answer,
    identifier,
    number,
    outcome,
    spare,
    styled,
    text,
    write_table,
)
from ett_service.cli.verb import Exit, Verb

_SETS = {"base": "the baseline", "with": "what is compared with it"}


def _factor_shown(factor: float | None) -> str:
    return NONE if factor is None else f"{factor:.2f}x"


def _interval(bounds: Answer | None) -> str:
    if bounds is None or (not bounds["low"] and bounds["high"] is None):
        return NONE
    high = "any" if bounds["high"] is None else _factor_shown(bounds["high"])
    return f"{_factor_shown(bounds['low'])} to {high}"


def _level(name: str) -> Callable[[Answer], str]:
    def level(figure: Answer) -> str:
        return value(figure["unit"], figure[name]["value"])

    return level


def _p(corrected: float | None) -> str:
    return NONE if corrected is None else f"{corrected:.2g}"


_FIGURES = (
    identifier("figure"),
    text("base", _level("base")),
    spare(number("n", "base.n", count)),
    text("with", _level("with")),
    spare(number("n", "with.n", count)),
    number("factor", "ratio", _factor_shown),
    text("95% interval", "ratio_interval", _interval),
    spare(number("p", "p_corrected", _p)),
    spare(number("detectable", "smallest_ratio", _factor_shown)),
    styled(text("outcome", "outcome", lambda figure: figure.replace("_", " ")), outcome),
)


_FACTOR_NOTE = (
    "base and with are medians. The factor is the median of `with` over `base` among all pairs of "
    "values (Hodges and Lehmann), so that it may differ from the quotient of the medians, and near "
    "1 in direction, too: look at its interval."
)


def _options(parser: ArgumentParser) -> None:
    for name, meaning in _SETS.items():
        parser.add_argument(
            f"--{name}",
            dest=f"{name}_set",
            action="append",
            default=[],
            metavar="DIMENSION:VALUE",
            help=f"{meaning}: a dimension's value, or job:PATTERN; may be repeated",
        )
        when(parser, f"--{name}-from", f"{name}_begin", "attempts that start at or after")
        when(parser, f"--{name}-to", f"{name}_end", "attempts that start before")
    parser.add_argument(
        "--fail-over",
        type=_factor,
        metavar="FACTOR",
        help="exit 3 if a figure is significantly worse, and by more than this, such as 1.1, "
        "and 6 if a figure has too few values to decide",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="FIGURE",
        help="only this figure, such as launcher_init; may be repeated",
    )


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 1 <= factor < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a factor from 1, such as 1.1")
    return factor


def _compare(args: Namespace) -> Any:
    query = of_project(args)
    for name in _SETS:
        query[name] = getattr(args, f"{name}_set")
        query[f"{name}_from"] = getattr(args, f"{name}_begin")
        query[f"{name}_to"] = getattr(args, f"{name}_end")
    answer = ask(args, "/v1/regressions/compare", query, timeout_s=PATIENT_S)
    figures = answer["compared"]
    if args.only:
        figures = [figure for figure in figures if figure["figure"] in args.only]
    return _with_gate({**answer, "compared": figures}, args)


class Gate(StrEnum):
    """What became of a gate; the worst that holds."""

    MET = auto()
    UNDECIDED = auto()  #: too few values for at least one of its figures
    FAILED = auto()


_EXITS = {Gate.MET: Exit.DONE, Gate.UNDECIDED: Exit.UNDECIDED, Gate.FAILED: Exit.GATE}


def _with_gate(answer: Answer, args: Namespace) -> Answer:
    """Add the gate's result, and name on standard error what it rests on."""
    faults = [*_missing(answer, args), *_worse(answer, args)]
    undecided = list(_undecided(answer, args))
    for line in (*faults, *undecided):
        print(line, file=sys.stderr)
    if args.fail_over is None:
        return answer
    gate = Gate.FAILED if faults else Gate.UNDECIDED if undecided else Gate.MET
    return {**answer, "gate": gate.value}


def _exit(answer: Answer, _args: Namespace) -> Exit:
    return _EXITS[Gate(answer["gate"])] if "gate" in answer else Exit.DONE


def _missing(answer: Answer, args: Namespace) -> Iterator[str]:
    for name in _SETS:
        if not answer[name]["attempts"]:
            yield f"The set {name} has no attempts."
    for name in sorted(set(args.only or ()) - {figure["figure"] for figure in answer["compared"]}):
        yield f"Neither set has the figure {name}."


def _worse(answer: Answer, args: Namespace) -> Iterator[str]:
    for figure in answer["compared"] if args.fail_over is not None else ():
        factor = figure["worse_by"]
        if figure["outcome"] == "worse" and (factor or math.inf) > args.fail_over:
            shown = _factor_shown(factor)
            yield f"{figure['figure']} is worse by {shown}, over {args.fail_over:g}."


def _undecided(answer: Answer, args: Namespace) -> Iterator[str]:
    """Name the figures with too few values; one without any in either set asks for no decision."""
    for figure in answer["compared"] if args.fail_over is not None else ():
        base, other = figure["base"]["n"], figure["with"]["n"]
        if figure["outcome"] == "too_few" and (base or other or args.only):
            yield (
                f"{figure['figure']} is undecided: {count(base)} and {count(other)} values are "
                "too few."
            )


def _write(answer: Answer, _args: Namespace) -> None:
    for name in _SETS:
        write_prose(f"{name}  {_set(answer[name])}")
    write_line()
    write_table(_FIGURES, answer["compared"])
    write_prose(_FACTOR_NOTE)
    ett = answer["ett"]
    if ett["parts"]:
        parts = ", ".join(
            f"{part['category']} {points(part['points'] / 100)}" for part in ett["parts"]
        )
        write_line()
        write_prose(
            f"ETT% of all wall time {percent(ett['base_ratio'])} -> {percent(ett['with_ratio'])}, "
            f"{points(ett['points'] / 100)}: {parts}"
        )
    if answer["start_shares"]:
        shares = ", ".join(
            f"{name} {percent(share)}" for name, share in answer["start_shares"].items()
        )
        write_line()
        write_prose(f"Of the change of attempt_start: {shares}")
    write_line()
    for difference in answer["unlike"]:
        write_prose(
            f"The sets differ in {difference['dimension']}: {difference['base'] or 'unknown'} "
            f"against {difference['with'] or 'unknown'} ({percent(difference['apart'])} of the "
            "attempts)"
        )
    write_prose(answer["note"])
    if "gate" in answer:
        write_prose(f"Gate: {answer['gate']}")


def _set(jobs: Answer) -> str:
    """Describe a set: its conditions, and how much there is of it."""
    chosen = " ".join(_conditions(jobs)) or "everything"
    return f"{chosen}: {count(jobs['attempts'])} attempts of {count(jobs['job_count'])} jobs"


def _conditions(jobs: Answer) -> Iterator[str]:
    for name, values in jobs["where"].items():
        yield from (f"{name}:{value}" for value in values)
    yield from (f"job:{pattern}" for pattern in jobs["jobs"])
    yield from (f"{edge} {jobs[edge][:19]}" for edge in ("from", "to") if jobs[edge])


ACT = Verb(
    summary="compare two sets of jobs directly",
    epilog="Examples: `ett regressions compare --base code_version:4.1 --with "
    "code_version:4.2`, `ett regressions compare --with 'job:nightly-*' --with-from 2d "
    "--base 'job:nightly-*' --fail-over 1.1`.",
    options=(_options, project, server),
    run=_compare,
    write=_write,
    exit_code=_exit,
)
