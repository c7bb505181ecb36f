"""``ett receivers``: who is notified of regressions, and whether that works."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from ett_service.cli import confirmation
from ett_service.cli.arguments import named, pair, project, server
from ett_service.cli.output import conditions, minute, or_dash, write_line
from ett_service.cli.remote import ask, of_project, place
from ett_service.cli.tables import (
    Answer,
    identifier,
    number,
    outcome,
    prose,
    spare,
    styled,
    text,
    write_rows,
)
from ett_service.cli.verb import Exit, Failure, Verb, act
from ett_service.notifications.formats import FORMATS

_MOST = 1000
_STATES = ("waiting", "repeating", "sent", "dead", "superseded")
_PATIENT_S = 60.0  # a receiver under test may take its time
_SHARED = (project, server)
_NAMED = (named("name", "name, as `list` shows it"), *_SHARED)


def _state(receiver: Answer) -> str:
    until = receiver["paused_until"]
    return str(receiver["state"]) if until is None else f"paused until {minute(until)} (UTC)"


_RECEIVERS = (
    identifier("name"),
    text("from", "project", lambda name: name or "settings"),
    text("format"),
    text("host", "host", or_dash),
    text("where", "where", lambda where: conditions(where) or "all"),
    styled(text("state", _state), outcome),
    number("failures"),
    number("pending", "waiting"),
    number("dead"),
)


def _last_try(delivery: Answer) -> str:
    if not delivery["tried"]:
        return "-"
    last = delivery["tried"][-1]
    return f"{last['status'] or ''} {last['said']}".strip()


_DELIVERIES = (
    identifier("id"),
    spare(identifier("series", "fingerprint")),
    spare(number("version", "state_version")),
    styled(text("state"), outcome),
    text("made (UTC)", "made_at", minute),
    spare(text("next (UTC)", "due_at", minute)),
    number("failed", "failed_tries"),
    prose("last", _last_try),
)


def _path(args: Namespace, act: str = "") -> str:
    return place("/v1/receivers/{}", args.name) + act


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="up to 63 of a-z, 0-9 and -")
    parser.add_argument(
        "address", help="address to post to; - reads it from standard input, as it may be a secret"
    )
    parser.add_argument("--format", choices=[*FORMATS], default="generic")
    parser.add_argument(
        "--routing-key-file", type=Path, metavar="FILE", help="file with PagerDuty's routing key"
    )
    parser.add_argument(
        "--where",
        action="append",
        type=pair,
        default=[],
        metavar="DIMENSION:VALUE",
        help="notify it only about this part of the fleet",
    )


def _add(args: Namespace) -> Any:
    body = {
        "name": args.name,
        "url": sys.stdin.readline().strip() if args.address == "-" else args.address,
        "format": args.format,
        "where": dict(args.where),
        "routing_key": _content(args.routing_key_file),
    }
    return ask(args, "/v1/receivers", of_project(args), method="POST", body=body)


def _write_added(receiver: Answer, _args: Namespace) -> None:
    if receiver["secret"] is None:
        write_line(f"{receiver['name']} is notified from now on.")
    else:
        _write_secret(receiver, _args)


def _write_secret(receiver: Answer, _args: Namespace) -> None:
    write_line(receiver["secret"])


def _list(args: Namespace) -> Any:
    return ask(args, "/v1/receivers", of_project(args))["receivers"]


def _write_list(receivers: list[Any], _args: Namespace) -> None:
    write_rows(_RECEIVERS, receivers, "No receivers. `ett receivers add NAME ADDRESS` adds one.")


def _test(args: Namespace) -> Any:
    path = _path(args, "/test")
    return ask(args, path, of_project(args), method="POST", timeout_s=_PATIENT_S)


def _write_test(trial: Answer, _args: Namespace) -> None:
    write_line(trial["outcome"])
    if trial["status"] is not None and trial["said"]:
        write_line(f"The receiver answered: {trial['said']}")


def _delivered(trial: Answer, _args: Namespace) -> Exit:
    return Exit.DONE if trial["delivered"] else Exit.FAILED


def _remove(args: Namespace) -> Any:
    what = f"the receiver {args.name} will be removed for good, with its pending deliveries"
    confirmation.require(args, what)
    ask(args, _path(args), of_project(args), method="DELETE")
    return {"name": args.name, "removed": True}


def _write_removed(_answer: Any, args: Namespace) -> None:
    write_line(f"{args.name} is removed.")


def _rotate(args: Namespace) -> Any:
    return ask(args, _path(args, "/rotate"), of_project(args), method="POST")


def _deliveries_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--state", action="append", choices=_STATES, help="only in this state; may be repeated"
    )
    parser.add_argument("--limit", type=int, default=100, help=f"up to {_MOST} (default 100)")


def _deliveries(args: Namespace) -> Any:
    query = of_project(args, state=args.state, limit=args.limit)
    return ask(args, _path(args, "/deliveries"), query)["deliveries"]


def _write_deliveries(deliveries: list[Any], _args: Namespace) -> None:
    write_rows(_DELIVERIES, deliveries, "No deliveries.")


def _replay(args: Namespace) -> Any:
    return ask(args, _path(args, "/replay"), of_project(args), method="POST")


def _write_replayed(answer: Answer, _args: Namespace) -> None:
    write_line(f"{answer['replayed']} deliveries are sent again.")


def _content(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(
            f"{file} cannot be read", "Name a file that holds the routing key."
        ) from error


VERB = Verb(
    acts={
        "add": act(
            "add a receiver and print its signing secret, this once",
            _add,
            _write_added,
            _add_options,
            *_SHARED,
        ),
        "list": act("list all receivers and their state", _list, _write_list, *_SHARED),
        "test": act("send a test message", _test, _write_test, *_NAMED, exit_code=_delivered),
        "remove": act(
            "remove a receiver, with its pending deliveries",
            _remove,
            _write_removed,
            *_NAMED,
            confirmation.yes,
        ),
        "rotate": act(
            "make a new secret; the former one still signs for a day",
            _rotate,
            _write_secret,
            *_NAMED,
        ),
        "deliveries": act(
            "list deliveries, latest first",
            _deliveries,
            _write_deliveries,
            *_NAMED,
            _deliveries_options,
        ),
        "replay": act("send dead deliveries again", _replay, _write_replayed, *_NAMED),
    },
)
