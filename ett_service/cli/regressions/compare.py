"""``ett regressions compare``: two sets of jobs side by side, and a gate on what got worse."""

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ett_service.charts.units import NONE, count, percent, value
from ett_service.cli.exits import Exit
from ett_service.cli.output import write_json, write_line, write_table
from ett_service.cli.remote import PATIENT_S, ask
from ett_service.cli.window import instant
from ett_service.core.regressions.finding import Unit

Answer = Mapping[str, Any]

_NUMBERS = ("base", "n", "with", "n", "factor", "p", "smallest seen")


def add_compare(acts: Any) -> argparse.ArgumentParser:
    """Declare the act; ``of_act`` is what runs it."""
    parser: argparse.ArgumentParser = acts.add_parser(
        "compare",
        help="compare two sets of jobs directly",
        epilog="Examples: `ett regressions compare --base code_version:4.1 --with "
        "code_version:4.2`, `ett regressions compare --with 'job:nightly-*' --with-from 2d "
        "--base 'job:nightly-*' --fail-over 1.1`.",
    )
    parser.set_defaults(of_act=run)
    for name, what in (("base", "what is compared with"), ("with", "what is compared")):
        dest = f"{name}_set"
        parser.add_argument(
            f"--{name}",
            dest=dest,
            action="append",
            default=[],
            metavar="DIMENSION:VALUE",
            help=f"{what}: a dimension's value, or job:PATTERN; may stand several times",
        )
        for edge, dest_edge in (("from", "begin"), ("to", "end")):
            parser.add_argument(
                f"--{name}-{edge}",
                dest=f"{name}_{dest_edge}",
                type=instant,
                metavar="WHEN",
                help=f"of attempts that start {'before' if edge == 'to' else 'at or after'}",
            )
    parser.add_argument(
        "--fail-over",
        type=_factor,
        metavar="FACTOR",
        help="exit with 3 if a figure is worse by more than this, as 1.1, and surely worse",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="FIGURE",
        help="only this figure, as launcher_init; may stand several times",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Print what differs and what does not; the gate looks at what is printed."""
    query = {
        "base": args.base_set,
        "base_from": args.base_begin,
        "base_to": args.base_end,
        "with": args.with_set,
        "with_from": args.with_begin,
        "with_to": args.with_end,
        "project": args.project,
    }
    answer = ask(args, "/v1/regressions/compare", query, timeout_s=PATIENT_S)
    figures = [one for one in answer["compared"] if not args.only or one["figure"] in args.only]
    if args.json:
        write_json({**answer, "compared": figures})
    else:
        _write(answer, figures)
    empty = [name for name in ("base", "with") if not answer[name]["attempts"]]
    for name in empty:
        print(f"The set {name} holds no attempts.", file=sys.stderr)
    gate = _gate(args, figures)
    return Exit.GATE if empty and args.fail_over is not None else gate


def _gate(args: argparse.Namespace, figures: list[Answer]) -> Exit:
    missing = set(args.only or ()) - {one["figure"] for one in figures}
    for name in sorted(missing):
        print(f"Neither set has the figure {name}.", file=sys.stderr)
    if args.fail_over is None:
        return Exit.DONE
    over = [
        one
        for one in figures
        if one["outcome"] == "worse" and (one["worse_by"] or math.inf) > args.fail_over
    ]
    for one in over:
        print(
            f"{one['figure']} is worse by {_factor_shown(one['worse_by'])}, over "
            f"{args.fail_over:g}.",
            file=sys.stderr,
        )
    return Exit.GATE if over or missing else Exit.DONE


def _write(answer: Answer, figures: list[Answer]) -> None:
    for name in ("base", "with"):
        write_line(f"{name}  {_told(answer[name])}")
    write_line()
    write_table(
        ("figure", *_NUMBERS[:5], "95% interval", *_NUMBERS[5:], "outcome"),
        [_row(one) for one in figures],
        right=_NUMBERS,
    )
    if answer["start_shares"]:
        shares = ", ".join(
            f"{name} {percent(share)}" for name, share in answer["start_shares"].items()
        )
        write_line()
        write_line(f"Of the change of attempt_start: {shares}")
    write_line()
    for one in answer["unlike"]:
        write_line(
            f"The sets differ in {one['dimension']}: {one['base'] or 'unknown'} against "
            f"{one['with'] or 'unknown'} ({percent(one['apart'])} of the attempts)"
        )
    write_line(answer["note"])


def _told(one: Answer) -> str:
    """Say what a set was asked for, and how much there is of it."""
    asked = " ".join(_conditions(one)) or "everything"
    return f"{asked}: {count(one['attempts'])} attempts of {count(one['job_count'])} jobs"


def _conditions(one: Answer) -> Iterator[str]:
    for name, values in one["where"].items():
        yield from (f"{name}:{value}" for value in values)
    yield from (f"job:{pattern}" for pattern in one["jobs"])
    yield from (f"{edge} {one[edge][:19]}" for edge in ("from", "to") if one[edge])


def _row(one: Answer) -> tuple[str, ...]:
    return (
        one["figure"],
        *_level(one["base"], one["unit"]),
        *_level(one["with"], one["unit"]),
        _factor_shown(one["ratio"]),
        _interval(one["ratio_interval"]),
        NONE if one["p_corrected"] is None else f"{one['p_corrected']:.2g}",
        _factor_shown(one["smallest_ratio"]),
        one["outcome"].replace("_", " "),
    )


def _interval(bounds: Answer | None) -> str:
    if bounds is None or (not bounds["low"] and bounds["high"] is None):
        return NONE
    high = "any" if bounds["high"] is None else _factor_shown(bounds["high"])
    return f"{_factor_shown(bounds['low'])} to {high}"


def _level(level: Answer, unit: Unit) -> tuple[str, str]:
    return value(unit, level["value"]), count(level["n"])


def _factor_shown(factor: float | None) -> str:
    return NONE if factor is None else f"{factor:.2f}x"


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a factor from 1, as 1.1")
    return value
