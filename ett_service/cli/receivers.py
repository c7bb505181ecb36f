"""``ett receivers``: whom to tell of regressions, and whether that works."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.remote import ask
from ett_service.notifications.formats import FORMATS

_PAGE = 1000
_STATES = ("waiting", "repeating", "sent", "dead", "superseded")
_PATIENT_S = 60.0  # a receiver under test may take its time


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("receivers", help="tell people of regressions")
    acts = parser.add_subparsers(
        dest="act", metavar="add|test|list|remove|rotate|deliveries|replay", required=True
    )
    _declare_add(acts.add_parser("add", help="make a receiver; prints what signs, this once"))
    acts.add_parser("list", help="print all receivers and how they do")
    for act, summary in (
        ("test", "send a message that is marked as a test"),
        ("remove", "forget a receiver, and give up what waits for it"),
        ("rotate", "make a new secret; the former one signs for a day yet"),
        ("deliveries", "print what became of messages, latest first"),
        ("replay", "send the messages again that were given up"),
    ):
        acts.add_parser(act, help=summary).add_argument("name", help="as `list` shows it")
    acts.choices["deliveries"].add_argument(
        "--state", action="append", choices=_STATES, help="only those; may be given several times"
    )
    acts.choices["deliveries"].add_argument(
        "--limit", type=int, default=100, help=f"up to {_PAGE} (default 100)"
    )
    for act_parser in acts.choices.values():
        act_parser.add_argument("--project", help="another project than the key's own")
        add_server(act_parser)
        add_json(act_parser)


def _declare_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="up to 63 of a-z, 0-9 and -")
    parser.add_argument(
        "address", help="where to post to; - reads it from standard input, as it may be a secret"
    )
    parser.add_argument("--format", choices=[*FORMATS], default="generic")
    parser.add_argument(
        "--routing-key-file", type=Path, metavar="FILE", help="of PagerDuty: what holds its key"
    )
    parser.add_argument(
        "--where",
        action="append",
        type=_condition,
        default=[],
        metavar="DIMENSION:VALUE",
        help="tell it only of what concerns these",
    )


def run(args: argparse.Namespace) -> int:
    """Do one of them."""
    acts: dict[str, Callable[[argparse.Namespace], int | None]] = {
        "add": _add,
        "list": _list,
        "test": _test,
        "remove": _remove,
        "rotate": _rotate,
        "deliveries": _deliveries,
        "replay": _replay,
    }
    return acts[args.act](args) or Exit.DONE


def _add(args: argparse.Namespace) -> None:
    sent = {
        "name": args.name,
        "url": sys.stdin.readline().strip() if args.address == "-" else args.address,
        "format": args.format,
        "where": dict(args.where),
        "routing_key": _held(args.routing_key_file),
    }
    made = ask(args, "/v1/receivers", _asked(args), method="POST", body=sent)
    if args.json:
        write_json(made)
    elif made["secret"] is None:
        write_line(f"{made['name']} is told from now on.")
    else:
        write_line(made["secret"])


def _list(args: argparse.Namespace) -> None:
    found = ask(args, "/v1/receivers", _asked(args))["receivers"]
    if args.json:
        write_json(found)
    elif not found:
        write_line("No receiver yet. `ett receivers add NAME ADDRESS` makes one.")
    else:
        columns = (
            "name",
            "from",
            "format",
            "host",
            "where",
            "state",
            "failures",
            "waiting",
            "dead",
        )
        write_table(columns, map(_row, found), right=("failures", "waiting", "dead"))


def _row(receiver: dict[str, Any]) -> tuple[object, ...]:
    return (
        receiver["name"],
        receiver["project"] or "settings",
        receiver["format"],
        receiver["host"] or "-",
        " ".join(f"{name}:{value}" for name, value in receiver["where"].items()) or "all",
        receiver["state"],
        receiver["failures"],
        receiver["waiting"],
        receiver["dead"],
    )


def _test(args: argparse.Namespace) -> int:
    told = ask(args, _path(args, "/test"), _asked(args), method="POST", timeout_s=_PATIENT_S)
    if args.json:
        write_json(told)
    else:
        write_line(told["outcome"])
        if told["status"] is not None and told["said"]:
            write_line(f"It said: {told['said']}")
    return Exit.DONE if told["delivered"] else Exit.FAILED


def _remove(args: argparse.Namespace) -> None:
    ask(args, _path(args), _asked(args), method="DELETE")
    if args.json:
        write_json({"name": args.name, "removed": True})
    else:
        write_line(f"{args.name} is told no more.")


def _rotate(args: argparse.Namespace) -> None:
    made = ask(args, _path(args, "/rotate"), _asked(args), method="POST")
    if args.json:
        write_json(made)
    else:
        write_line(made["secret"])


def _deliveries(args: argparse.Namespace) -> None:
    wanted = {**_asked(args), "state": args.state, "limit": args.limit}
    found = ask(args, _path(args, "/deliveries"), wanted)["deliveries"]
    if args.json:
        write_json(found)
    elif not found:
        write_line("Nothing was to be told.")
    else:
        columns = ("id", "series", "version", "state", "made (UTC)", "next (UTC)", "failed", "last")
        write_table(columns, map(_delivery_row, found), right=("version", "failed"))


def _delivery_row(delivery: dict[str, Any]) -> tuple[object, ...]:
    last = delivery["tried"][-1] if delivery["tried"] else None
    said = "-" if last is None else f"{last['status'] or ''} {last['said']}".strip()
    return (
        delivery["id"],
        delivery["fingerprint"],
        delivery["state_version"],
        delivery["state"],
        minute(delivery["made_at"]),
        minute(delivery["due_at"]),
        delivery["failed_tries"],
        said,
    )


def _replay(args: argparse.Namespace) -> None:
    told = ask(args, _path(args, "/replay"), _asked(args), method="POST")
    if args.json:
        write_json(told)
    else:
        write_line(f"{told['replayed']} are sent again.")


def _path(args: argparse.Namespace, act: str = "") -> str:
    return f"/v1/receivers/{quote(args.name, safe='')}{act}"


def _asked(args: argparse.Namespace) -> dict[str, object]:
    return {"project": args.project}


def _held(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(
            f"{file} cannot be read", "Name a file that holds the routing key."
        ) from error


def _condition(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not name or not colon:
        raise argparse.ArgumentTypeError("DIMENSION:VALUE is needed")
    return name, value
