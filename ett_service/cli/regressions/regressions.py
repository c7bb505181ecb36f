"""``ett regressions``: what changed for the worse, why, and what is done about it."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ett_service.charts.units import NONE, amount, cohort, factor, level_change, subject
from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.regressions import acts as regressions_acts
from ett_service.cli.regressions import mutes as regressions_mutes
from ett_service.cli.regressions.compare import add_compare
from ett_service.cli.regressions.explain import add_explain
from ett_service.cli.regressions.power import add_power
from ett_service.cli.remote import ask
from ett_service.cli.window import instant
from ett_service.core.regressions.finding import Metric, State, Verdict

_PAGE = 1000
_FILTERS = ("state", "verdict", "metric", "phase", "where", "from", "to", "project")
_COLUMNS = ("id", "verdict", "state", "severity", "what", "cohort", "before -> after", "ratio",
            "GPU-h a week", "since (UTC)", "triage")  # fmt: skip
_NUMBERS = ("ratio", "GPU-h a week")
_EMPTY = (
    "Nothing was found. `ett regressions power` tells what could have been, and when the last "
    "search was."
)


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "regressions",
        help="what changed for the worse, why, and what is done about it",
        epilog="Examples: `ett regressions list --state firing`, `ett regressions explain ID`.",
    )
    acts = parser.add_subparsers(dest="act", metavar="ACT", required=True)
    declared = (
        _add_list(acts),
        add_explain(acts),
        add_compare(acts),
        add_power(acts),
        *regressions_acts.add_acts(acts),
        *regressions_mutes.add_acts(acts),
    )
    for act in declared:
        act.add_argument("--project", help="one project, for a key that may name others")
        add_server(act)
        add_json(act)


def run(args: argparse.Namespace) -> int:
    """Do what was asked for; each act says itself what runs it."""
    code: int = args.of_act(args)
    return code


def _add_list(acts: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = acts.add_parser("list", help="print findings, latest first")
    parser.set_defaults(of_act=_list)
    parser.add_argument(
        "--state", action="append", choices=_words(State), help="default all but inactive"
    )
    parser.add_argument("--verdict", action="append", choices=_words(Verdict))
    parser.add_argument("--metric", choices=_words(Metric))
    parser.add_argument("--phase", help="only of this phase")
    parser.add_argument(
        "--where",
        action="append",
        metavar="DIMENSION:VALUE",
        help="only of cohorts with this value, as model:llm-70b",
    )
    parser.add_argument("--from", type=instant, help="only those not resolved before (RFC 3339)")
    parser.add_argument("--to", type=instant, help="only those that set in before (RFC 3339)")
    parser.add_argument("--sort", help="member, `-` in front: largest first (default -pending_at)")
    parser.add_argument("--limit", type=_count, default=50, metavar="N", help="default 50")
    parser.add_argument(
        "--fail-on",
        choices=("pending", "firing"),
        help="exit with 3 if a regression that is not muted fires (pending: or may soon)",
    )
    return parser


def _words(kind: type[State] | type[Verdict] | type[Metric]) -> list[str]:
    return [one.value for one in kind]


def _list(args: argparse.Namespace) -> int:
    query = {name: getattr(args, name) for name in (*_FILTERS, "sort")}
    found = list(_rows(args, query, args.limit))
    if args.json:
        write_json(found)
    elif not found:
        write_line(_EMPTY)
    else:
        write_table(_COLUMNS, map(_row, found), right=_NUMBERS)
    return Exit.DONE if args.fail_on is None else _gate(args, query)


def _gate(args: argparse.Namespace, query: Mapping[str, Any]) -> int:
    """Fail if any of what was asked for, shown or not, is in a state that must not be."""
    states = ["firing"] if args.fail_on == "firing" else ["pending", "firing"]
    asked = {**query, "state": states, "verdict": ["regression"]}
    failing = [row for row in _rows(args, asked) if row["muted_until"] is None]
    if not failing:
        return Exit.DONE
    sys.stderr.write(f"Regressions {' or '.join(states)}, and not muted: {len(failing)}.\n")
    return Exit.GATE


def _rows(
    args: argparse.Namespace, query: Mapping[str, Any], most: int | None = None
) -> Iterator[dict[str, Any]]:
    left, cursor = most, None
    while left is None or left > 0:
        limit = _PAGE if left is None else min(_PAGE, left)
        page = ask(args, "/v1/regressions", {**query, "limit": limit, "cursor": cursor})
        yield from page["regressions"]
        cursor = page["next_cursor"]
        if cursor is None:
            return
        left = None if left is None else left - len(page["regressions"])


def _row(found: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        found["id"],
        found["verdict"],
        found["state"] + (" (muted)" if found["muted_until"] else ""),
        found["severity"],
        subject(found),
        cohort(found["cohort"]),
        level_change(found),
        factor(found["ratio"]),
        amount(found["impact"]["gpu_hours_per_week"]),
        minute(found["onset_at"]),
        found["triage"] or NONE,
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("a whole number from 1 is needed")
    return int(text)
