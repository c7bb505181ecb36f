"""``ett regressions power``: the smallest change that the last search would have found."""

import argparse
from collections.abc import Mapping
from typing import Any

from ett_service.charts.units import cohort, count, duration, factor, subject
from ett_service.cli.exits import Exit
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.remote import ask

_PAGE = 1000
_NUMBERS = ("recent", "before", "smallest")


def add_power(acts: Any) -> argparse.ArgumentParser:
    """Declare the act."""
    parser: argparse.ArgumentParser = acts.add_parser(
        "power", help="what could have been seen, so that silence is not read as health"
    )
    parser.set_defaults(of_act=_show)
    parser.add_argument("--where", action="append", metavar="DIMENSION:VALUE")
    parser.add_argument("--metric", help="only of this metric")
    parser.add_argument("--phase", help="only of this phase")
    return parser


def _show(args: argparse.Namespace) -> int:
    found = _asked(args)
    if args.json:
        write_json(found)
    elif not found["runs"]:
        write_line("Nothing was searched yet. `ett detect` searches now, without storing anything.")
    else:
        _write(found)
    return Exit.DONE


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    names = ("where", "metric", "phase", "project")
    query = {name: getattr(args, name) for name in names} | {"limit": _PAGE}
    page: dict[str, Any] = ask(args, "/v1/regressions/power", query)
    found, cursor = {"runs": page["runs"], "power": page["power"]}, page["next_cursor"]
    while cursor is not None:
        page = ask(args, "/v1/regressions/power", {**query, "cursor": cursor})
        found["power"] += page["power"]
        cursor = page["next_cursor"]
    return found


def _write(found: Mapping[str, Any]) -> None:
    for run in found["runs"]:
        write_line(
            f"{run['project']}: searched up to {minute(run['at'])} (UTC), "
            f"{count(run['series'])} series in {duration(run['took_seconds'])}"
        )
    write_line()
    rows = sorted(found["power"], key=_by_what_can_be_seen)
    write_table(
        ("cohort", "what", *_NUMBERS),
        [
            (
                cohort(row["cohort"]),
                subject(row),
                count(row["recent"]),
                count(row["baseline"]),
                "nothing" if row["smallest"] is None else factor(row["smallest"]),
            )
            for row in rows
        ],
        right=_NUMBERS,
    )
    blind = sum(row["smallest"] is None for row in rows)
    if blind:
        write_line(f"In {count(blind)} of {count(len(rows))} no change could have been seen.")


def _by_what_can_be_seen(row: Mapping[str, Any]) -> tuple[bool, float]:
    smallest = row["smallest"]
    return smallest is None, 0.0 if smallest is None else abs(smallest - 1)
