"""``ett markers``: deploys, launches and maintenance windows, beside which numbers are read."""

import argparse
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit
from ett_service.cli.now import now_us
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.remote import ask
from ett_service.core.events import MarkerKind
from ett_service.core.intervals import rfc3339

_KINDS = tuple(kind.value for kind in MarkerKind)
_PAGE = 1000


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("markers", help="record deploys, launches and maintenance")
    acts = parser.add_subparsers(dest="act", metavar="add|list|delete", required=True)
    for act in (_declare_add(acts), _declare_list(acts), _declare_delete(acts)):
        act.add_argument("--project", help="another project than the key's own")
        add_server(act)
        add_json(act)


def _declare_add(acts: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = acts.add_parser("add", help="keep a marker")
    parser.add_argument("title", help="what was done, in a few words")
    parser.add_argument("--kind", choices=_KINDS, required=True)
    parser.add_argument("--at", help="when it began (RFC 3339 with an offset); default now")
    parser.add_argument("--end", help="when it ended, of what took time")
    parser.add_argument(
        "--label", action="append", type=_label, default=[], metavar="NAME:VALUE", dest="labels"
    )
    parser.add_argument("--id", help="its own name; the same again is the same marker")
    return parser


def _declare_list(acts: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = acts.add_parser("list", help="print markers, latest first")
    parser.add_argument("--from", help="only those that end at or after this instant (RFC 3339)")
    parser.add_argument("--to", help="only those that begin before this instant (RFC 3339)")
    parser.add_argument("--kind", choices=_KINDS)
    parser.add_argument("--q", help="only with this text in their title")
    parser.add_argument("--label", action="append", metavar="NAME:VALUE")
    return parser


def _declare_delete(acts: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = acts.add_parser("delete", help="forget a marker")
    parser.add_argument("id", help="as `list` shows it")
    return parser


def run(args: argparse.Namespace) -> int:
    """Do one of the three."""
    acts: dict[str, Callable[[argparse.Namespace], None]] = {
        "add": _add,
        "list": _list,
        "delete": _delete,
    }
    acts[args.act](args)
    return Exit.DONE


def _add(args: argparse.Namespace) -> None:
    sent = {
        "at": args.at or rfc3339(now_us()),
        "end": args.end,
        "kind": args.kind,
        "title": args.title,
        "labels": dict(args.labels),
        "id": args.id,
    }
    made = ask(args, "/v1/markers", {"project": args.project}, method="POST", body=sent)
    if args.json:
        write_json(made)
    else:
        write_line(made["id"])


def _list(args: argparse.Namespace) -> None:
    wanted = {name: getattr(args, name) for name in ("from", "to", "kind", "q", "label", "project")}
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = ask(args, "/v1/markers", {**wanted, "limit": _PAGE, "cursor": cursor})
        found += page["markers"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    if args.json:
        write_json(found)
    elif not found:
        write_line("No marker yet. `ett markers add --kind deploy TITLE` keeps one.")
    else:
        write_table(("id", "at (UTC)", "end (UTC)", "kind", "labels", "title"), map(_row, found))


def _row(marker: dict[str, Any]) -> tuple[object, ...]:
    return (
        marker["id"],
        minute(marker["at"]),
        minute(marker["end"]),
        marker["kind"],
        " ".join(f"{name}:{value}" for name, value in marker["labels"].items()) or "-",
        marker["title"],
    )


def _delete(args: argparse.Namespace) -> None:
    path = f"/v1/markers/{quote(args.id, safe='')}"
    ask(args, path, {"project": args.project}, method="DELETE")
    if args.json:
        write_json({"id": args.id, "deleted": True})
    else:
        write_line(f"{args.id} is deleted.")


def _label(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not name or not colon:
        raise argparse.ArgumentTypeError("NAME:VALUE is needed")
    return name, value
