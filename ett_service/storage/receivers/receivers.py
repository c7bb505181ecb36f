"""Receivers made by API; their addresses and secrets are stored sealed.

A rotated secret signs for another day beside the new one, so that receivers can change over.
"""

import base64
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from ett_service.core.errors import EttError
from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.seal import CannotUnseal, Keyring
from ett_service.storage.receivers.deliveries import enable
from ett_service.storage.schema import api_key, project, receiver, receiver_health

NAME = re.compile("[a-z0-9][a-z0-9-]{0,62}")
OVERLAP_US = DAY_US
_SECRET_BYTES = 32
_MOST_OF_A_PROJECT = 100


class BadReceiver(EttError):
    """The receiver cannot be made."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a receiver."""

    failures: int = 0  #: in a row
    disabled_why: str | None = None  #: set if it wants no more deliveries
    open_until_us: int | None = None  #: nothing is sent to it before, after failures in a row

    def paused_until_us(self, now_us: int) -> int | None:
        """Return when something is sent to it again; None where it is not paused."""
        until_us = self.open_until_us
        return until_us if until_us is not None and until_us > now_us else None


@dataclass(frozen=True, slots=True)
class StoredReceiver:
    """A receiver as it is stored; instants are microseconds since the Unix epoch."""

    project_id: int
    project: str
    name: str
    format: str
    cohort: Mapping[str, str]  #: it is notified only of these
    made_by: str
    made_by_name: str | None
    made_us: int
    old_until_us: int | None  #: until when the former secret signs, too
    health: Health
    sealed_url: str = field(repr=False)
    sealed_secret: str = field(repr=False)
    sealed_old_secret: str | None = field(repr=False)

    def secrets(self, keyring: Keyring, now_us: int) -> tuple[str, ...]:
        """Return the secrets that sign at *now_us*, the newest first.

        Raises:
            CannotUnseal: They were sealed with another key.
        """
        sealed = [self.sealed_secret]
        if self.sealed_old_secret is not None and now_us < (self.old_until_us or 0):
            sealed.append(self.sealed_old_secret)
        return tuple(filter(None, map(keyring.unseal, sealed)))


class Resealed(NamedTuple):
    """How many receivers are sealed under the newest key by now, and which no key can read."""

    receivers: int
    unreadable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewReceiver:
    """A receiver to make; its address is checked already."""

    name: str
    url: str = field(repr=False)
    format: str
    secret: str = field(repr=False)  #: empty for a format without one
    cohort: Mapping[str, str] = field(default_factory=dict)


_RECEIVERS = (
    select(
        receiver,
        project.c.name.label("project"),
        api_key.c.name.label("made_by_name"),
        receiver_health.c.failures,
        receiver_health.c.disabled_why,
        receiver_health.c.open_until_us,
    )
    .select_from(receiver)
    .join(project)
    .outerjoin(api_key, api_key.c.prefix == receiver.c.made_by)
    .outerjoin(
        receiver_health,
        (receiver_health.c.owner == receiver.c.project_id)
        & (receiver_health.c.name == receiver.c.name),
    )
    .order_by(receiver.c.project_id, receiver.c.name)
)
_BY_NAME = (
    receiver.c.project_id == bindparam("of_project"),
    receiver.c.name == bindparam("of_name"),
)


def listing(conn: Connection, project_id: int | None = None) -> list[StoredReceiver]:
    """Return the receivers of a project, or of all, by name."""
    statement = _RECEIVERS
    if project_id is not None:
        statement = statement.where(receiver.c.project_id == project_id)
    return [_stored(row) for row in conn.execute(statement)]


def get(conn: Connection, project_id: int, name: str) -> StoredReceiver | None:
    """Return one receiver."""
    row = conn.execute(
        _RECEIVERS.where(*_BY_NAME), {"of_project": project_id, "of_name": name}
    ).one_or_none()
    return None if row is None else _stored(row)


def health_of_settings(conn: Connection) -> dict[str, Health]:
    """Return the health of the receivers that the settings name, by name."""
    health = receiver_health.c
    columns = (health.name, health.failures, health.disabled_why, health.open_until_us)
    statement = select(*columns).where(health.owner == 0)
    return {name: Health(*columns) for name, *columns in conn.execute(statement)}


def unwell(conn: Connection, now_us: int) -> list[tuple[str, Health]]:
    """Return the receivers of anybody to which nothing is sent by now, and why, by name."""
    columns = receiver_health.c
    chosen = (columns.name, columns.failures, columns.disabled_why, columns.open_until_us)
    rows = conn.execute(select(*chosen).order_by(columns.name, columns.owner))
    named = [(name, Health(*of_it)) for name, *of_it in rows]
    return [
        (name, health)
        for name, health in named
        if health.disabled_why is not None or health.paused_until_us(now_us) is not None
    ]


def add(
    conn: Connection,
    project_id: int,
    new: NewReceiver,
    *,
    keyring: Keyring,
    made_by: str,
    now_us: int,
) -> None:
    """Store a new receiver.

    Raises:
        BadReceiver: Its name is invalid or taken, or the project has too many.
        NoSecretKey: There is nothing to seal its secrets with.
    """
    if not NAME.fullmatch(new.name):
        raise BadReceiver("A name has up to 63 of a-z, 0-9 and -, and does not begin with a dash.")
    names = {stored.name for stored in listing(conn, project_id)}
    if new.name in names:
        raise BadReceiver("A receiver of this name exists already.")
    if len(names) >= _MOST_OF_A_PROJECT:
        raise BadReceiver(f"A project has at most {_MOST_OF_A_PROJECT} receivers.")
    row = {
        "project_id": project_id,
        "name": new.name,
        "url": keyring.seal(new.url),
        "format": new.format,
        "cohort": json.dumps(dict(new.cohort), sort_keys=True),
        "secret": keyring.seal(new.secret),
        "made_by": made_by,
        "made_us": now_us,
    }
    conn.execute(insert(receiver), row)


def remove(conn: Connection, project_id: int, name: str) -> bool:
    """Remove a receiver and reset its health; False if it does not exist.

    The worker gives up its pending deliveries, as it finds no address for them.
    """
    enable(conn, project_id, name)
    of_receiver = {"of_project": project_id, "of_name": name}
    return conn.execute(delete(receiver).where(*_BY_NAME), of_receiver).rowcount > 0


def rotate(conn: Connection, stored: StoredReceiver, *, keyring: Keyring, now_us: int) -> str:
    """Give a receiver a new secret and return it; the former one signs for another day."""
    fresh = new_secret()
    conn.execute(
        update(receiver)
        .where(*_BY_NAME)
        .values(
            secret=keyring.seal(fresh),
            old_secret=stored.sealed_secret,
            old_until_us=now_us + OVERLAP_US,
        ),
        {"of_project": stored.project_id, "of_name": stored.name},
    )
    return fresh


def reseal(conn: Connection, keyring: Keyring) -> Resealed:
    """Seal anew what is sealed under a former key, as far as it can be read.

    Raises:
        NoSecretKey: There is no key to seal with.
    """
    done, unreadable = 0, []
    for stored in listing(conn):
        try:
            values = _sealed_anew(stored, keyring)
        except CannotUnseal:
            unreadable.append(stored.name)
            continue
        if values:
            of_receiver = {"of_project": stored.project_id, "of_name": stored.name}
            conn.execute(update(receiver).where(*_BY_NAME).values(values), of_receiver)
            done += 1
    return Resealed(done, tuple(unreadable))


def _sealed_anew(stored: StoredReceiver, keyring: Keyring) -> dict[str, str]:
    sealed = {
        "url": stored.sealed_url,
        "secret": stored.sealed_secret,
        "old_secret": stored.sealed_old_secret,
    }
    return {
        column: keyring.seal(keyring.unseal(text))
        for column, text in sealed.items()
        if text is not None and not keyring.is_newest(text)
    }


def new_secret() -> str:
    """Return a secret of 256 random bits, as Standard Webhooks writes them."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}"


def _stored(row: Row[Any]) -> StoredReceiver:
    return StoredReceiver(
        project_id=row.project_id,
        project=row.project,
        name=row.name,
        format=row.format,
        cohort=json.loads(row.cohort),
        made_by=row.made_by,
        made_by_name=row.made_by_name,
        made_us=row.made_us,
        old_until_us=row.old_until_us,
        health=Health(row.failures or 0, row.disabled_why, row.open_until_us),
        sealed_url=row.url,
        sealed_secret=row.secret,
        sealed_old_secret=row.old_secret,
    )
