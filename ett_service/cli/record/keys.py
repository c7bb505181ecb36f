"""``ett keys``: who may do what in which project.

The database itself is opened, so that the first key needs none; where a server holds the file,
it is asked instead, with a key of scope ``admin``.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection

from ett_service.cli.arguments import add_json
from ett_service.cli.configured import add_config, loaded
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.now import now_us
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.remote import ask
from ett_service.core.intervals import rfc3339
from ett_service.storage.engine.errors import StoreInUse
from ett_service.storage.engine.store import open_for_reading, open_store
from ett_service.storage.record.keys import SCOPES, create_key, list_keys, revoke_key

T = TypeVar("T")


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("keys", help="create, list and revoke API keys")
    acts = parser.add_subparsers(dest="act", metavar="create|list|revoke", required=True)
    create = acts.add_parser("create", help="make a key and print it, this once")
    create.add_argument("--project", required=True, help="made if it is new")
    create.add_argument("--name", default="unnamed", help="what the key is for")
    create.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        required=True,
        help="what it may do; give it several times for several",
    )
    listed = acts.add_parser("list", help="print all keys, without their secrets")
    revoke = acts.add_parser("revoke", help="end a key, at once")
    revoke.add_argument("prefix", help="its first twelve characters, as `list` shows them")
    for asked in (create, listed, revoke):
        asked.add_argument("--url", help="ask the server there instead of opening the database")
        asked.add_argument(
            "--key",
            default=os.environ.get("ETT_API_KEY") or None,
            help="key of scope admin for that server (ETT_API_KEY)",
        )
        add_config(asked)
        add_json(asked)


def run(args: argparse.Namespace) -> int:
    """Do one of the three."""
    acts: dict[str, Callable[[argparse.Namespace], None]] = {
        "create": _create,
        "list": _list,
        "revoke": _revoke,
    }
    acts[args.act](args)
    return Exit.DONE


def _create(args: argparse.Namespace) -> None:
    asked = {"project": args.project, "name": args.name, "scopes": sorted(set(args.scope))}
    if args.url:
        key = ask(args, "/v1/keys", method="POST", body=asked)["key"]
    else:
        key = _write(args, lambda conn: create_key(conn, **asked, now_us=now_us()))
    if args.json:
        write_json({**asked, "key": key})
    else:
        write_line(key)


def _list(args: argparse.Namespace) -> None:
    keys = ask(args, "/v1/keys")["keys"] if args.url else _kept(args)
    if args.json:
        write_json(keys)
        return
    write_table(
        ("prefix", "project", "name", "scopes", "created (UTC)", "revoked (UTC)"),
        [
            (
                key["prefix"],
                key["project"],
                key["name"],
                " ".join(key["scopes"]),
                minute(key["created_at"]),
                minute(key["revoked_at"]),
            )
            for key in keys
        ],
    )


def _revoke(args: argparse.Namespace) -> None:
    if args.url:
        ask(args, f"/v1/keys/{args.prefix}", method="DELETE")
    elif not _write(args, lambda conn: revoke_key(conn, args.prefix, now_us())):
        raise Failure(
            f"no key that stands begins with {args.prefix}",
            "`ett keys list` shows the prefixes; a revoked key stays revoked.",
        )
    if args.json:
        write_json({"prefix": args.prefix, "revoked": True})
    else:
        write_line(f"{args.prefix} is revoked.")


def _kept(args: argparse.Namespace) -> Sequence[dict[str, Any]]:
    store = open_for_reading(loaded(args).settings.database_url)
    try:
        with store.reading() as conn:
            keys = list_keys(conn)
    finally:
        store.close()
    return [
        {
            "prefix": key.prefix,
            "project": key.project,
            "name": key.name,
            "scopes": sorted(key.scopes),
            "created_at": rfc3339(key.created_at),
            "revoked_at": None if key.revoked_at is None else rfc3339(key.revoked_at),
        }
        for key in keys
    ]


def _write(args: argparse.Namespace, work: Callable[[Connection], T]) -> T:
    try:
        store = open_store(loaded(args).settings.database_url)
    except StoreInUse as error:
        raise Failure(
            str(error),
            "A server holds the file; ask it: --url ADDRESS --key KEY, with a key of scope admin.",
        ) from error
    try:
        return store.write(work)
    finally:
        store.close()
