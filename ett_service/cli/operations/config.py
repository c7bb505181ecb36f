"""``ett config``, and the settings, the database and the user of this machine for other verbs."""

import getpass
import json
import os
import socket
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import Connection

from ett_service.cli.arguments import config
from ett_service.cli.output import write_line
from ett_service.cli.tables import identifier, prose, text, write_table
from ett_service.cli.verb import Verb, now_us
from ett_service.logs import redact
from ett_service.settings import Loaded, Settings, load
from ett_service.storage.engine.store import Readable, open_for_reading
from ett_service.storage.record import audit
from ett_service.storage.record.audit import Actor, AdminAct, Via

_COLUMNS = (identifier("setting"), prose("value"), text("from", "source"))


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


def _settings(args: Namespace) -> Mapping[str, Any]:
    loading = loaded(args)
    values = loading.settings.model_dump(mode="json", by_alias=True)
    return {
        name: {"value": redact(value) if isinstance(value, str) else value, "source": source}
        for (name, value), source in zip(values.items(), loading.sources.values(), strict=True)
    }


def _write_settings(settings: Mapping[str, Any], _args: Namespace) -> None:
    rows = [
        {"setting": name, "value": _as_written(entry["value"]), "source": entry["source"]}
        for name, entry in settings.items()
    ]
    write_table(_COLUMNS, rows)


def _as_written(value: object) -> str:
    """Return *value* as the environment takes it, so that it may be copied from here."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_valid(_settings: Any, _args: Namespace) -> None:
    write_line("The settings are valid.")


VERB = Verb(
    acts={
        "show": Verb(
            summary="print each setting and its source; passwords are redacted",
            options=(config,),
            run=_settings,
            write=_write_settings,
        ),
        "check": Verb(
            summary="check whether the settings are valid",
            options=(config,),
            run=_settings,
            write=_write_valid,
        ),
    },
)
