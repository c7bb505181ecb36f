"""Receivers that a project's people asked for; address and secrets are kept sealed.

A rotated secret goes on to sign for a day, beside the new one, so that whoever verifies can
change over.
"""

import base64
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from ett_service.core.errors import EttError
from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.seal import Keyring
from ett_service.storage.receivers.deliveries import enable
from ett_service.storage.schema import api_key, project, receiver, receiver_health

NAME = re.compile("[a-z0-9][a-z0-9-]{0,62}")
OVERLAP_US = DAY_US
_SECRET_BYTES = 32
_MOST_OF_A_PROJECT = 100


class BadReceiver(EttError):
    """A receiver cannot be made as asked."""


@dataclass(frozen=True, slots=True)
class Health:
    """How a receiver does."""

    failures: int = 0  #: in a row
    disabled_why: str | None = None  #: it wants nothing any more


@dataclass(frozen=True, slots=True)
class StoredReceiver:
    """A receiver as it is stored; instants are microseconds since the Unix epoch."""

    project_id: int
    project: str
    name: str
    format: str
    cohort: Mapping[str, str]  #: it hears only of what concerns these
    made_by: str
    made_by_name: str | None
    made_us: int
    old_until_us: int | None  #: until when the secret before the last rotation signs, too
    health: Health
    sealed_url: str = field(repr=False)
    sealed_secret: str = field(repr=False)
    sealed_old_secret: str | None = field(repr=False)

    def secrets(self, keyring: Keyring, now_us: int) -> tuple[str, ...]:
        """Return those that sign by now, the newest first.

        Raises:
            CannotUnseal: They were sealed with another key.
        """
        sealed = [self.sealed_secret]
        if self.sealed_old_secret is not None and now_us < (self.old_until_us or 0):
            sealed.append(self.sealed_old_secret)
        return tuple(filter(None, map(keyring.unseal, sealed)))


@dataclass(frozen=True, slots=True)
class NewReceiver:
    """A receiver to make; the address was checked before."""

    name: str
    url: str = field(repr=False)
    format: str
    secret: str = field(repr=False)  #: empty for one that is not signed to
    cohort: Mapping[str, str] = field(default_factory=dict)


_RECEIVERS = (
    select(
        receiver,
        project.c.name.label("project"),
        api_key.c.name.label("made_by_name"),
        receiver_health.c.failures,
        receiver_health.c.disabled_why,
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
_ONE = (
    receiver.c.project_id == bindparam("of_project"),
    receiver.c.name == bindparam("of_name"),
)


def listing(conn: Connection, project_id: int | None = None) -> list[StoredReceiver]:
    """Return the receivers of a project, or of all, by name."""
    asked = _RECEIVERS
    if project_id is not None:
        asked = asked.where(receiver.c.project_id == project_id)
    return [_kept(row) for row in conn.execute(asked)]


def get(conn: Connection, project_id: int, name: str) -> StoredReceiver | None:
    """Return one receiver."""
    row = conn.execute(
        _RECEIVERS.where(*_ONE), {"of_project": project_id, "of_name": name}
    ).one_or_none()
    return None if row is None else _kept(row)


def health_of_settings(conn: Connection) -> dict[str, Health]:
    """Return by name how the receivers do that the settings name."""
    health = receiver_health.c
    asked = select(health.name, health.failures, health.disabled_why).where(health.owner == 0)
    return {name: Health(failures, why) for name, failures, why in conn.execute(asked)}


def add(
    conn: Connection,
    project_id: int,
    new: NewReceiver,
    *,
    keyring: Keyring,
    made_by: str,
    now_us: int,
) -> None:
    """Keep a new receiver.

    Raises:
        BadReceiver: Its name is none, or taken, or the project has too many.
        NoSecretKey: There is nothing to seal its secrets with.
    """
    if not NAME.fullmatch(new.name):
        raise BadReceiver("A name has up to 63 of a-z, 0-9 and -, and begins with no dash.")
    known = {one.name for one in listing(conn, project_id)}
    if new.name in known:
        raise BadReceiver("A receiver of this name is there already.")
    if len(known) >= _MOST_OF_A_PROJECT:
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
    """Forget a receiver and how it did; False if there is none.

    What it was still to be sent the deliverer gives up, as it finds no address for it.
    """
    enable(conn, project_id, name)
    gone = conn.execute(
        delete(receiver).where(receiver.c.project_id == project_id, receiver.c.name == name)
    )
    return gone.rowcount > 0


def rotate(conn: Connection, kept: StoredReceiver, *, keyring: Keyring, now_us: int) -> str:
    """Give a receiver a new secret and return it; the one it had signs for a day yet."""
    fresh = new_secret()
    conn.execute(
        update(receiver)
        .where(*_ONE)
        .values(
            secret=keyring.seal(fresh),
            old_secret=kept.sealed_secret,
            old_until_us=now_us + OVERLAP_US,
        ),
        {"of_project": kept.project_id, "of_name": kept.name},
    )
    return fresh


def new_secret() -> str:
    """Return a secret of 256 random bits, as Standard Webhooks writes them."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}"


def _kept(row: Row[Any]) -> StoredReceiver:
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
        health=Health(row.failures or 0, row.disabled_why),
        sealed_url=row.url,
        sealed_secret=row.secret,
        sealed_old_secret=row.old_secret,
    )
