"""``ett keys``: who may do what in which project.

Where ``--url`` or ``ETT_URL`` names a server, it asks that one, with a key of scope ``admin``.
Else, and where settings of this machine are named beside ``ETT_URL``, it opens the database itself,
so that the first key needs none.
"""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar

from sqlalchemy import Connection

from ett_service.cli.arguments import config, named, names_settings, seconds
from ett_service.cli.operations.local import loaded, opened_for_reading
from ett_service.cli.output import minute, write_line
from ett_service.cli.remote import ask, place, without_none
from ett_service.cli.tables import identifier, spare, text, write_table
from ett_service.cli.verb import Failure, Verb, act, now_us
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.storage.engine.errors import StoreInUse
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.keys import SCOPES, create_key, list_keys, revoke_key

T = TypeVar("T")

_LONGEST_S = 3_650 * 86_400

_COLUMNS = (
    identifier("prefix"),
    text("project"),
    text("name"),
    text("scopes", "scopes", " ".join),
    spare(text("created (UTC)", "created_at", minute)),
    spare(text("revoked (UTC)", "revoked_at", minute)),
    spare(text("expires (UTC)", "expires_at", minute)),
)


def _server(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        help="ask this server instead of opening the database (default: ETT_URL, unless "
        "--config, ETT_CONFIG, ETT_DATABASE_URL or ett.toml name settings of this machine)",
    )
    parser.add_argument(
        "--key",
        default=os.environ.get("ETT_API_KEY") or None,
        help="key of scope admin for that server (ETT_API_KEY)",
    )


def _asks_server(args: Namespace) -> bool:
    """Say whether a server is named, and put its address where requests look for it."""
    if not args.url and not names_settings(args):
        args.url = os.environ.get("ETT_URL")
    return bool(args.url)


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
    if _asks_server(args):
        sent = {**body, "expires_at": expires_at}
        key = ask(args, "/v1/keys", method="POST", body=without_none(sent))["key"]
    else:
        expiring = {**body, "expires_us": expires_us}
        key = _write(args, lambda conn: create_key(conn, **expiring, now_us=now_us()))
    return {**body, "expires_at": expires_at, "key": key}


def _write_created(created: Any, _args: Namespace) -> None:
    write_line(created["key"])


def _list(args: Namespace) -> Any:
    if _asks_server(args):
        return ask(args, "/v1/keys")["keys"]
    with opened_for_reading(args) as (_, store), store.reading() as conn:
        keys = list_keys(conn)
    return [
        {
            "prefix": key.prefix,
            "project": key.project,
            "name": key.name,
            "scopes": sorted(key.scopes),
            "created_at": rfc3339(key.created_at),
            "revoked_at": None if key.revoked_at is None else rfc3339(key.revoked_at),
            "expires_at": None if key.expires_at is None else rfc3339(key.expires_at),
        }
        for key in keys
    ]


def _write_list(keys: Any, _args: Namespace) -> None:
    write_table(_COLUMNS, keys)


def _revoke(args: Namespace) -> Any:
    if _asks_server(args):
        ask(args, place("/v1/keys/{}", args.prefix), method="DELETE")
    elif not _write(args, lambda conn: revoke_key(conn, args.prefix, now_us())):
        raise Failure(
            f"no active key begins with {args.prefix}",
            "`ett keys list` shows the prefixes; a revoked key stays revoked.",
        )
    return {"prefix": args.prefix, "revoked": True}


def _write_revoked(_answer: Any, args: Namespace) -> None:
    write_line(f"{args.prefix} is revoked.")


def _write(args: Namespace, work: Callable[[Connection], T]) -> T:
    try:
        store = open_store(loaded(args).settings.database_url)
    except StoreInUse as error:
        raise Failure(
            str(error),
            "A server holds the file; ask it: --url ADDRESS --key KEY, with a key of scope admin.",
        ) from error
    with closing(store):
        return store.write(work)


VERB = Verb(
    acts={
        "create": act(
            "create a key and print it, this once",
            _create,
            _write_created,
            _create_options,
            _server,
            config,
        ),
        "list": act("list all keys, without their secrets", _list, _write_list, _server, config),
        "revoke": act(
            "revoke a key, at once",
            _revoke,
            _write_revoked,
            named("prefix", "its first twelve characters, as `list` shows them"),
            _server,
            config,
        ),
    },
)
