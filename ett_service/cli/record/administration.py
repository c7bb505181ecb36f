"""What administrators' verbs share: they ask a server, or open the database of this machine.

Where ``--url`` or ``ETT_URL`` names a server, they ask that one, with a key of scope ``admin``.
Else, and where settings of this machine are named beside ``ETT_URL``, they open the database
itself, so that the first key needs none.
"""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from sqlalchemy import Connection

from ett_service.cli.arguments import names_settings
from ett_service.cli.operations.config import loaded
from ett_service.cli.verb import Failure
from ett_service.storage.engine.errors import StoreInUse
from ett_service.storage.engine.store import open_store

T = TypeVar("T")


def server(parser: ArgumentParser) -> None:
    """Offer ``--url`` and ``--key``."""
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


def asks_server(args: Namespace) -> bool:
    """Say whether a server is named, and put its address where requests look for it."""
    if not args.url and not names_settings(args):
        args.url = os.environ.get("ETT_URL")
    return bool(args.url)


def write(args: Namespace, work: Callable[[Connection], T]) -> T:
    """Run *work* on the database of this machine.

    Raises:
        Failure: A server holds the file.
    """
    try:
        store = open_store(loaded(args).settings.database_url)
    except StoreInUse as error:
        raise Failure(
            str(error),
            "A server holds the file; ask it: --url ADDRESS --key KEY, with a key of scope admin.",
        ) from error
    with closing(store):
        return store.write(work)
