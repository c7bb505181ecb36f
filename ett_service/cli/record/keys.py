"""``ett keys``: who may do what in which project, and what each key sends."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection

from ett_service.charts.units import count, size
from ett_service.cli import confirmation
from ett_service.cli.arguments import config, named, seconds
from ett_service.cli.operations.config import opened_for_reading, record
from ett_service.cli.output import minute, write_line
from ett_service.cli.record.administration import asks_server, server, write
from ett_service.cli.remote import ask, place, without_none
from ett_service.cli.tables import identifier, number, spare, text, write_rows, write_table
from ett_service.cli.verb import Failure, Verb, act, now_us
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.storage.record.audit import Action, AdminAct, made_key
from ett_service.storage.record.keys import (
    PREFIX_LENGTH,
    SCOPES,
    USAGE_WINDOWS,
    Key,
    create_key,
    get_key,
    list_keys,
    revoke_key,
    rotate_key,
    usage_by_key,
)

_LONGEST_S = 3_650 * 86_400
_OVERLAP_S = 86_400.0
_LONGEST_OVERLAP_S = 90 * 86_400
_PREFIX = "its first twelve characters, as `list` shows them"

_COLUMNS = (
    identifier("prefix"),
    text("project"),
    text("name"),
    text("scopes", "scopes", " ".join),
    spare(text("created (UTC)", "created_at", minute)),
    spare(text("revoked (UTC)", "revoked_at", minute)),
    spare(text("expires (UTC)", "expires_at", minute)),
    spare(text("last used (UTC)", "last_used_at", minute)),
    spare(text("replaced by", "replaced_by", lambda prefix: prefix or "")),
)

_USAGE = (
    identifier("prefix"),
    text("project"),
    text("name"),
    number("requests", "requests", count),
    number("refused", "refused", count),
    number("events", "events", count),
    number("sent", "bytes", size),
    spare(text("last used (UTC)", "last_used_at", minute)),
)


def _create_options(parser: ArgumentParser) -> None:
    parser.add_argument("--project", required=True, help="project, which is made if it is new")
    parser.add_argument("--name", default="unnamed", help="what the key is for")
    parser.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        required=True,
        help="what the key may do; repeat it for several scopes",
    )
    parser.add_argument(
        "--expires",
        type=seconds,
        metavar="DURATION",
        help="how long it is valid, such as 90d (default: until it is revoked)",
    )


def _create(args: Namespace) -> Mapping[str, Any]:
    body = {"project": args.project, "name": args.name, "scopes": sorted(set(args.scope))}
    if args.expires is not None and args.expires > _LONGEST_S:
        raise Failure("a key is valid for at most 3650d, or until it is revoked")
    expires_us = None if args.expires is None else now_us() + round(args.expires * SECOND_US)
    expires_at = None if expires_us is None else rfc3339(expires_us)
    if asks_server(args):
        sent = {**body, "expires_at": expires_at}
        key = ask(args, "/v1/keys", method="POST", body=without_none(sent))["key"]
    else:
        expiring = {**body, "expires_us": expires_us}
        key = write(args, lambda conn: _new(conn, expiring))
    return {**body, "expires_at": expires_at, "key": key}


def _new(conn: Connection, members: Mapping[str, Any]) -> str:
    text = create_key(conn, **members, now_us=now_us())
    return _created(conn, text, AdminAct(Action.KEY_CREATED))


def _created(conn: Connection, text: str, act: AdminAct) -> str:
    key = get_key(conn, text[:PREFIX_LENGTH])
    assert key is not None
    record(conn, made_key(key, act))
    return text


def _write_created(created: Any, _args: Namespace) -> None:
    write_line(created["key"])


def _list(args: Namespace) -> Any:
    if asks_server(args):
        return ask(args, "/v1/keys")["keys"]
    with opened_for_reading(args) as (_, store), store.reading() as conn:
        keys = list_keys(conn)
    return [_as_json(key) for key in keys]


def _as_json(key: Key) -> dict[str, Any]:
    return {
        "prefix": key.prefix,
        "project": key.project,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "created_at": rfc3339(key.created_at),
        "revoked_at": _instant(key.revoked_at),
        "expires_at": _instant(key.expires_at),
        "replaced_by": key.replaced_by,
        "last_used_at": _instant(key.last_used_at),
    }


def _instant(at_us: int | None) -> str | None:
    return None if at_us is None else rfc3339(at_us)


def _write_list(keys: Any, _args: Namespace) -> None:
    write_table(_COLUMNS, keys)


def _rotate_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--overlap",
        type=seconds,
        default=_OVERLAP_S,
        metavar="DURATION",
        help="how long the old key still works (default: 24h)",
    )


def _rotate(args: Namespace) -> Any:
    overlap_s = round(args.overlap)
    if overlap_s > _LONGEST_OVERLAP_S:
        raise Failure("keys overlap for at most 90d")
    if asks_server(args):
        path, body = place("/v1/keys/{}/rotate", args.prefix), {"overlap_seconds": overlap_s}
        key = ask(args, path, method="POST", body=body)["key"]
    else:
        key = write(args, lambda conn: _rotated(conn, args.prefix, overlap_s))
    return {"prefix": args.prefix, "overlap_seconds": overlap_s, "key": key}


def _rotated(conn: Connection, prefix: str, overlap_s: int) -> str:
    overlap_us = overlap_s * SECOND_US
    text = rotate_key(conn, prefix, overlap_us=overlap_us, now_us=now_us())
    if text is None:
        raise _unknown(prefix)
    act = AdminAct(Action.KEY_ROTATED, prefix, details={"overlap_seconds": overlap_s})
    return _created(conn, text, act)


def _revoke(args: Namespace) -> Any:
    confirmation.require(args, f"the key {args.prefix} will be revoked for good")
    if asks_server(args):
        ask(args, place("/v1/keys/{}", args.prefix), method="DELETE")
    else:
        write(args, lambda conn: _revoked(conn, args.prefix))
    return {"prefix": args.prefix, "revoked": True}


def _revoked(conn: Connection, prefix: str) -> None:
    key = revoke_key(conn, prefix, now_us())
    if key is None:
        raise _unknown(prefix)
    record(conn, AdminAct(Action.KEY_REVOKED, prefix, key.project_id))


def _unknown(prefix: str) -> Failure:
    return Failure(
        f"no active key begins with {prefix}",
        "`ett keys list` shows the prefixes; a revoked key stays revoked.",
    )


def _write_revoked(_answer: Any, args: Namespace) -> None:
    write_line(f"{args.prefix} is revoked.")


def _usage_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--window",
        choices=USAGE_WINDOWS,
        default="day",
        help="the last so long (default: day)",
    )


def _usage(args: Namespace) -> Any:
    if asks_server(args):
        return ask(args, "/v1/key-usage", {"window": args.window})["keys"]
    with opened_for_reading(args) as (_, store), store.reading() as conn:
        sums = usage_by_key(conn, USAGE_WINDOWS[args.window], now_us(), None)
    shown = ("prefix", "project", "name", "last_used_at")
    keys = [{name: _as_json(each.key)[name] for name in shown} for each in sums]
    return [key | asdict(each.usage) for key, each in zip(keys, sums, strict=True)]


def _write_usage(keys: Any, args: Namespace) -> None:
    write_rows(_USAGE, keys, f"No key sent anything in the last {args.window}.")


VERB = Verb(
    acts={
        "create": act(
            "create a key and print it, this once",
            _create,
            _write_created,
            _create_options,
            server,
            config,
        ),
        "list": act("list all keys, without their secrets", _list, _write_list, server, config),
        "rotate": act(
            "create a successor of a key and print it, this once",
            _rotate,
            _write_created,
            named("prefix", _PREFIX),
            _rotate_options,
            server,
            config,
        ),
        "revoke": act(
            "revoke a key, at once",
            _revoke,
            _write_revoked,
            named("prefix", _PREFIX),
            confirmation.yes,
            server,
            config,
        ),
        "usage": act(
            "list what each key sends, most bytes first",
            _usage,
            _write_usage,
            _usage_options,
            server,
            config,
        ),
    },
)
