"""``ett jobs verdict | exclude | include | corrections | delete``: corrects the record of a job."""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.remote import ask
from ett_service.core.words import Cause, Origin

_PAGE = 1000
_WHY = "for who reads the history: why"
_INSTANT = "(RFC 3339 with an offset)"


def add_acts(parser: argparse.ArgumentParser) -> None:
    """Declare what ``ett jobs`` does beside listing."""
    acts = parser.add_subparsers(dest="act", metavar="[ACT]", title="instead of listing")
    declared = (
        _declare_verdict(acts),
        _declare_exclude(acts),
        acts.add_parser("include", help="take an exclusion back"),
        acts.add_parser("corrections", help="who corrected what about a job, and why"),
        _declare_delete(acts),
    )
    for act in declared[:-1]:
        act.add_argument("job", help="the job's name")
    for act in declared:
        act.add_argument("--project", help="another project than the key's own")
        add_server(act)
        add_json(act)
    # The number follows the job that it counts in.
    declared[0].add_argument("number", type=int, help="of the attempt, as `ett job` shows it")


def _declare_verdict(acts: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = acts.add_parser("verdict", help="say what a failure was")
    said = parser.add_mutually_exclusive_group(required=True)
    said.add_argument("--cause", choices=[cause.value for cause in Cause])
    said.add_argument("--take-back", action="store_true", help="let the rules judge again")
    parser.add_argument(
        "--origin",
        choices=[origin.value for origin in Origin],
        help="default: the one that the cause commonly has",
    )
    parser.add_argument("--why", help=_WHY)
    return parser


def _declare_exclude(acts: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = acts.add_parser(
        "exclude", help="leave a job, or a window of it, out of the fleet's numbers"
    )
    parser.add_argument("--from", help=f"begin of the window {_INSTANT}; default the job's")
    parser.add_argument("--to", help=f"end of the window {_INSTANT}; default the job's")
    parser.add_argument(
        "--window",
        action="append",
        type=_window,
        dest="windows",
        metavar="FROM/TO",
        help="instead of these: one of several windows; either end may be left out",
    )
    parser.add_argument("--why", required=True, help=_WHY)
    return parser


def _declare_delete(acts: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = acts.add_parser("delete", help="delete jobs for good")
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="the job's name")
    parser.add_argument("--yes", action="store_true", help="without it only what would go is told")
    return parser


def run_act(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    acts: dict[str, Callable[[argparse.Namespace], int]] = {
        "verdict": _judge,
        "exclude": _exclude,
        "include": _include,
        "corrections": _show,
        "delete": _delete,
    }
    return acts[args.act](args)


def _judge(args: argparse.Namespace) -> int:
    place = f"attempts/{args.number}/verdict"
    if args.take_back:
        _ask(args, place, method="DELETE")
        return _told(args, None, f"The rules judge attempt {args.number} of {args.job} again.")
    said = {"cause": args.cause, "origin": args.origin, "why": args.why}
    given = {name: value for name, value in said.items() if value is not None}
    made = _ask(args, place, method="PUT", body=given)
    return _told(
        args, made, f"Attempt {args.number} of {args.job}: {made['origin']}: {made['cause']}."
    )


def _exclude(args: argparse.Namespace) -> int:
    window = {"from": getattr(args, "from"), "to": args.to}
    said = {**window, "windows": args.windows, "why": args.why}
    made = _ask(args, "exclusion", method="PUT", body=said)
    return _told(args, made, f"{args.job} is left out of the fleet's numbers.")


def _include(args: argparse.Namespace) -> int:
    _ask(args, "exclusion", method="DELETE")
    return _told(args, None, f"{args.job} counts again.")


def _show(args: argparse.Namespace) -> int:
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = _ask(args, "corrections", {"limit": _PAGE, "cursor": cursor})
        found += page["corrections"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    if args.json:
        write_json(found)
    elif not found:
        write_line(f"Nobody corrected anything about {args.job}.")
    else:
        columns = ("correction", "of", "made (UTC)", "by", "taken back (UTC)", "by", "why")
        write_table(columns, map(_row, found))
    return Exit.DONE


def _row(one: Mapping[str, Any]) -> tuple[object, ...]:
    if one["kind"] == "verdict":
        of = f"{one['launch'] or '-'}/{one['attempt']}/{one['cycle']}"
        said = f"verdict {one['origin']}: {one['cause']}"
    else:
        of = f"{minute(one['from'])} to {minute(one['to'])}"
        said = "exclusion"
    return (
        said,
        of,
        minute(one["made_at"]),
        one["made_by_name"] or one["made_by"],
        minute(one["taken_back_at"]),
        one["taken_back_by_name"] or one["taken_back_by"] or "-",
        one["why"],
    )


def _delete(args: argparse.Namespace) -> int:
    # Asked of all before any goes: a mistyped name must not leave half of them deleted.
    answers = [_deletion(args, job, dry_run=True) for job in args.jobs]
    if args.yes:
        answers = [_deletion(args, job, dry_run=False) for job in args.jobs]
    if args.json:
        write_json(answers)
    else:
        columns = ("job", "events", "attempts", "corrections")
        write_table(columns, [[told[name] for name in columns] for told in answers])
    if args.yes:
        return Exit.DONE
    sys.stderr.write("Nothing was deleted. --yes deletes this; there is no way back.\n")
    return Exit.USAGE


def _deletion(args: argparse.Namespace, job: str, *, dry_run: bool) -> Any:
    query = {"project": args.project, "dry_run": "true" if dry_run else None}
    return ask(args, f"/v1/jobs/{quote(job, safe='')}", query, method="DELETE")


def _ask(
    args: argparse.Namespace,
    place: str,
    query: Mapping[str, object] | None = None,
    *,
    method: str = "GET",
    body: object = None,
) -> Any:
    path = f"/v1/jobs/{quote(args.job, safe='')}/{place}"
    asked = {"project": args.project, **(query or {})}
    return ask(args, path, asked, method=method, body=body)


def _window(text: str) -> dict[str, str | None]:
    begin, slash, end = text.partition("/")
    if not slash:
        raise argparse.ArgumentTypeError("FROM/TO is needed")
    return {"from": begin or None, "to": end or None}


def _told(args: argparse.Namespace, answer: object, line: str) -> int:
    if args.json:
        write_json(answer)
    else:
        write_line(line)
    return Exit.DONE
