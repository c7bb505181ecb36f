"""``ett explain``: why ETT% changed from one window to another."""

import argparse
from collections.abc import Mapping
from typing import Any

from ett_service.charts.units import count, percent, points
from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit
from ett_service.cli.fleet.fleet import names
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.remote import ask
from ett_service.cli.window import add_by, add_scope, add_window, instant, scope, window

Answer = Mapping[str, Any]


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "explain",
        help="split a change of ETT%% into its causes",
        epilog="Examples: `ett explain`, `ett explain --by team,model --from 14d`.",
    )
    add_by(parser)
    add_window(parser)
    for name, dest in (("from", "base_begin"), ("to", "base_end")):
        parser.add_argument(
            f"--base-{name}",
            dest=dest,
            type=instant,
            metavar="WHEN",
            help="the window to compare with (default: as long, right before)",
        )
    add_scope(parser)
    parser.add_argument("--weighting", choices=("accelerators", "wall"))
    parser.add_argument("--limit", type=int, metavar="N", help="how many parts (default 20)")
    add_server(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the parts of the change, the largest first."""
    query = {
        **window(args),
        **scope(args),
        "base_from": args.base_begin,
        "base_to": args.base_end,
        "group_by": args.by,
        "weighting": args.weighting,
        "limit": args.limit,
    }
    answer = ask(args, "/v1/fleet/explain", query)
    if args.json:
        write_json(answer)
    else:
        _write(answer)
    return Exit.DONE


def _write(answer: Answer) -> None:
    for name in ("base", "current"):
        side = answer[name]
        write_line(
            f"{minute(side['from'])} to {minute(side['to'])} (UTC): "
            f"ETT {percent(side['ett_ratio'])}, {count(side['jobs'])} jobs"
        )
    if not answer["comparable"]:
        write_line("One of the two windows holds no time: there is nothing to compare.")
        return
    write_line(
        f"Change {_points(answer['change_points'])}: {_points(answer['mix_points'])} by mix, "
        f"{_points(answer['within_points'])} within cohorts"
    )
    write_line()
    numbers = ("change", "before", "now")
    rest = answer["rest"]
    write_table(
        (*answer["group_by"], "part", *numbers, "jobs that weigh most"),
        [_row(part, answer) for part in answer["parts"]],
        right=numbers,
        last=_last(answer, f"{count(rest['parts'])} smaller", rest["points"])
        if rest["parts"]
        else None,
    )


def _row(part: Answer, answer: Answer) -> tuple[str, ...]:
    return (
        *names(part, answer["group_by"]),
        part["part"],
        _points(part["points"]),
        percent(part["base"]),
        percent(part["current"]),
        ", ".join(job["job"] for job in part["jobs"]),
    )


def _last(answer: Answer, name: str, change: float) -> tuple[str, ...]:
    dimensions = len(answer["group_by"])
    return (name, *[""] * dimensions, _points(change), "", "", "")


def _points(change: float) -> str:
    return points(change / 100)
