"""``ett explain``: why ETT% changed from one window to another."""

from argparse import ArgumentParser, Namespace
from typing import Any

from ett_service.charts.units import count, many, percent, points
from ett_service.cli.arguments import (
    by,
    of_window,
    scope,
    scope_query,
    server,
    window,
    window_query,
)
from ett_service.cli.fleet.fleet import group_columns
from ett_service.cli.output import minute, write_line, write_prose
from ett_service.cli.remote import ask
from ett_service.cli.tables import Answer, gain, number, spare, styled, text, write_table
from ett_service.cli.verb import Verb

_OWNER = "owner"


def _points(change: float) -> str:
    return points(change / 100)


def _names(jobs: list[Answer]) -> str:
    return ", ".join(job["job"] for job in jobs)


_PART = (
    text("part"),
    styled(number("change", "points", _points), gain),
    number("before", "base", percent),
    number("now", "current", percent),
    spare(text("largest jobs", "jobs", _names)),
)


def _options(parser: ArgumentParser) -> None:
    summary = "window to compare with (default: as long, right before)"
    of_window(parser, "--base-from", "base_begin", summary)
    of_window(parser, "--base-to", "base_end", summary)
    parser.add_argument(
        "--weighting", choices=("accelerators", "wall"), help="default accelerators"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="number of parts (default 20)")


def _explain(args: Namespace) -> Any:
    names = None if args.by is None else [name.strip() for name in args.by.split(",")]
    query = {
        **window_query(args),
        **scope_query(args),
        "base_from": args.base_begin,
        "base_to": args.base_end,
        "group_by": None if names is None else ",".join(name for name in names if name != _OWNER),
        "split": _OWNER if _OWNER in (names or ()) else None,
        "weighting": args.weighting,
        "limit": args.limit,
    }
    return ask(args, "/v1/fleet/explain", query)


def _write(answer: Answer, _args: Namespace) -> None:
    for side in (answer["base"], answer["current"]):
        write_prose(
            f"{minute(side['from'])} to {minute(side['to'])} (UTC): "
            f"ETT {percent(side['ett_ratio'] if side['seconds'] else None)}, "
            f"{many(side['jobs'], 'job')}"
        )
    if not answer["comparable"]:
        write_prose(
            "One of the two windows has no time, so they cannot be compared. --from and "
            "--base-from choose others; `ett fleet --step 1w --from 28d` shows when jobs ran."
        )
        return
    write_prose(
        f"Change {_points(answer['change_points'])}: {_points(answer['mix_points'])} by mix, "
        f"{_points(answer['within_points'])} within cohorts"
    )
    write_line()
    groups, rest = group_columns(answer["group_by"]), answer["rest"]
    smaller = (f"{count(rest['parts'])} smaller", *[""] * len(groups), _points(rest["points"]))
    write_table(
        (*groups, *_PART),
        answer["parts"],
        last=(*smaller, "", "", "") if rest["parts"] else None,
    )


VERB = Verb(
    epilog="Examples: `ett explain`, `ett explain --by team,model --from 14d`; `ett explain --by "
    "owner` splits the change by whose wait it was, `--by owner,team` for each team.",
    options=(by, window, _options, scope, server),
    run=_explain,
    write=_write,
)
