"""The settings, the database and the user of this machine, for verbs that need no server."""

import getpass
import os
import socket
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from sqlalchemy import Connection

from ett_service.cli.verb import now_us
from ett_service.settings import Loaded, Settings, load
from ett_service.storage.engine.store import Readable, open_for_reading
from ett_service.storage.record import audit
from ett_service.storage.record.audit import Actor, AdminAct, Via


def loaded(args: Namespace, overrides: Mapping[str, object] | None = None) -> Loaded:
    """Read the settings; *overrides* that are not None win, by the name of their variable.

    Raises:
        BadSettings: naming what is wrong.
    """
    flags = {name: str(value) for name, value in (overrides or {}).items() if value is not None}
    return load(os.environ | flags, args.config)


@contextmanager
def opened_for_reading(args: Namespace) -> Iterator[tuple[Settings, Readable]]:
    """Load the settings and open the database that they name; a server may run meanwhile."""
    settings = loaded(args).settings
    with closing(open_for_reading(settings.database_url)) as store:
        yield settings, store


def record(conn: Connection, act: AdminAct) -> None:
    """Record in the audit log what the user of this machine does."""
    audit.record(conn, _user(), act, now_us())


def _user() -> Actor:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        name = f"uid {os.getuid()}"
    return Actor(None, name, Via.COMMAND, socket.gethostname())
