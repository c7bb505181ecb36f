"""``ett regressions mute | unmute | mutes``: of what nobody is told for a while."""

import argparse
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from ett_service.charts.units import cohort
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.now import now_us
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.quantities import seconds
from ett_service.cli.regressions.acts import act_on, told
from ett_service.cli.remote import ask
from ett_service.core.intervals import SECOND_US, rfc3339

_PATH = "/v1/regressions/mutes"
_PAGE = 1000


def add_acts(acts: Any) -> Iterator[argparse.ArgumentParser]:
    """Declare the three."""
    yield _add_mute(acts)
    unmute = acts.add_parser("unmute", help="end a mute now")
    unmute.set_defaults(of_act=_unmute)
    unmute.add_argument("mute", help="its id, as `mutes` shows it")
    yield unmute
    listed = acts.add_parser("mutes", help="print what is muted")
    listed.set_defaults(of_act=_list)
    listed.add_argument("--over", action="store_true", help="also those that ended")
    yield listed


def _add_mute(acts: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = acts.add_parser(
        "mute",
        help="tell nobody of a finding's cohort and phase, or of those that are named",
        epilog="Examples: `ett regressions mute ID --for 3d --why ...`, "
        "`ett regressions mute --where cluster:a --for 6h --why ...`.",
    )
    parser.set_defaults(of_act=_mute)
    parser.add_argument("id", nargs="?", help="of a finding, as `list` shows it")
    parser.add_argument(
        "--where",
        action="append",
        type=_dimension,
        default=[],
        metavar="DIMENSION:VALUE",
        help="instead: cohorts with this value, as cluster:a",
    )
    parser.add_argument("--phase", help="and of this phase alone")
    parser.add_argument("--all", action="store_true", help="instead: everything of the project")
    ends = parser.add_mutually_exclusive_group(required=True)
    ends.add_argument("--until", help="RFC 3339 with an offset, up to a year ahead")
    ends.add_argument("--for", type=seconds, dest="length", help="how long: 90m, 6h, 3d")
    parser.add_argument("--why", required=True, help="for who reads the history: why")
    return parser


def _mute(args: argparse.Namespace) -> int:
    named = bool(args.where or args.phase)
    if sum((args.id is not None, named, args.all)) != 1:
        raise Failure(
            "exactly one of a finding, a part of the project and --all can be muted",
            "Name a finding by its id, or a part by --where and --phase, or --all of the project.",
        )
    until = args.until or rfc3339(now_us() + round(args.length * SECOND_US))
    body: dict[str, Any] = {"until": until, "why": args.why}
    if args.id is not None:
        made = act_on(args, "mute", body)
    else:
        body |= {"cohort": dict(args.where), "phase": args.phase}
        made = ask(args, _PATH, {"project": args.project}, method="POST", body=body)
    phase = f", {made['phase']}" if made["phase"] else ""
    line = (
        f"{made['id']} mutes {cohort(made['cohort'])}{phase} until {minute(made['until'])} (UTC)."
    )
    return told(args, made, line)


def _unmute(args: argparse.Namespace) -> int:
    path = f"{_PATH}/{quote(args.mute, safe='')}"
    ask(args, path, {"project": args.project}, method="DELETE")
    return told(args, {"id": args.mute, "taken_back": True}, f"{args.mute} is over.")


def _list(args: argparse.Namespace) -> int:
    asked = {"project": args.project, "over": "true" if args.over else None, "limit": _PAGE}
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = ask(args, _PATH, {**asked, "cursor": cursor})
        found += page["mutes"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    if args.json:
        write_json(found)
    elif not found:
        write_line("Nobody muted anything. Maintenance does, too: `ett markers list`.")
    else:
        columns = ("id", "cohort", "phase", "from (UTC)", "until (UTC)", "by", "why")
        write_table(columns, map(_row, found))
    return Exit.DONE


def _row(mute: dict[str, Any]) -> tuple[object, ...]:
    return (
        mute["id"],
        cohort(mute["cohort"]),
        mute["phase"] or "(all)",
        minute(mute["from"]),
        minute(mute["until"]),
        mute["made_by_name"] or mute["made_by"],
        mute["why"],
    )


def _dimension(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not name or not colon:
        raise argparse.ArgumentTypeError("DIMENSION:VALUE is needed")
    return name, value
