"""What a server does once as it starts: it hands out the first key, and records new settings."""

import json
import logging
import shlex
import socket
import sys
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sqlalchemy import Connection

from ett_service.settings import Settings
from ett_service.storage.engine.store import Store
from ett_service.storage.record import audit
from ett_service.storage.record.audit import Action, Actor, AdminAct, Via
from ett_service.storage.record.keys import PREFIX_LENGTH, SCOPES, create_key, list_keys

log = logging.getLogger(__name__)

FIRST_PROJECT = "default"
_FIRST_KEY = "first key"

AUDITED = frozenset(
    {
        "accelerators_per_node",
        "alerting",
        "cohorts_a_day",
        "currency",
        "detection",
        "lost_after_seconds",
        "open_metrics",
        "peak_rates",
        "prices",
        "queue_lost_after_seconds",
        "receivers",
        "retention_days",
        "targets",
        "webhook_allow",
    }
)
"""Settings that change numbers, who is notified, and what is kept."""


def first_lines(address: str, key: str) -> str:
    """Return the three lines that record a training script in a shell of this machine."""
    return "\n".join(
        (
            install_command(distribution("ett-service").read_text("direct_url.json")),
            f"export ETT_URL={address} ETT_API_KEY={key}",
            "ett run -- python train.py",
        )
    )


def install_command(origin: str | None) -> str:
    """Return what installs the package from where this server's came.

    *origin* is the content of its ``direct_url.json``; None of what came from an index by its name.
    """
    if origin is None:
        return "pip install ett-service"
    told = json.loads(origin)
    url, version = told["url"], told.get("vcs_info")
    if version is not None:
        source = f"{version['vcs']}+{url}@{version['commit_id']}"
    elif url.startswith("file://"):
        source = unquote(urlsplit(url).path)
    else:
        source = url
    editable = "-e " if told.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{shlex.quote(source)}"


def hand_out_first_key(store: Store, now_us: int, file: Path | None, address: str) -> None:
    """Make a key of every scope, if this embedded database has no key yet.

    It is written to the *file*, or else printed, with the lines that record a job at *address*.
    """
    if store.dialect != "sqlite":
        return
    with store.reading() as conn:
        if list_keys(conn):
            return
    key = store.write(lambda conn: _first_key(conn, now_us))
    if file is not None:
        file.touch(0o600)
        file.write_text(key + "\n", "ascii")
        log.info("%s has the first key. It has every scope: take it, and delete the file.", file)
        return
    log.info("Standard output shows the first key, only this once. It has every scope.")
    lines = first_lines(address, key)
    sys.stdout.write(
        f"{key}\n\nThese lines record python train.py in another shell:\n\n{lines}\n\n"
    )
    sys.stdout.flush()


def record_settings(store: Store, settings: Settings, now_us: int) -> None:
    """Record which settings differ from those of the server that started last.

    Secrets are masked, so a change of nothing but a secret is not seen.
    """
    values = json.loads(settings.model_dump_json(include=set(AUDITED), by_alias=True))

    def exchange(conn: Connection) -> None:
        before = audit.exchange_settings(conn, values)
        if before is not None and (changes := _changes(before, values)):
            act = AdminAct(Action.SETTINGS_CHANGED, details=changes)
            audit.record(conn, _starting("settings"), act, now_us)

    store.write(exchange)


def _first_key(conn: Connection, now_us: int) -> str:
    key = create_key(conn, project=FIRST_PROJECT, name=_FIRST_KEY, scopes=SCOPES, now_us=now_us)
    details = {"name": _FIRST_KEY, "scopes": sorted(SCOPES)}
    act = AdminAct(Action.KEY_CREATED, key[:PREFIX_LENGTH], details=details)
    audit.record(conn, _starting(_FIRST_KEY), act, now_us)
    return key


def _starting(name: str) -> Actor:
    return Actor(None, name, Via.START, socket.gethostname())


def _changes(before: Mapping[str, object], now: Mapping[str, object]) -> dict[str, object]:
    return {
        name: {"from": before.get(name), "to": value}
        for name, value in sorted(now.items())
        if before.get(name) != value
    }
