"""Projects, the keys that speak for them, and what each key sends.

A key is ``ett_``, 30 random base62 characters and a checksum of 6, so that a mistyped one is
recognised without a look-up, and a leaked one can be searched for. Only its SHA-256 is stored.
What it sends is summed by ten minutes, and written now and then by whoever serves.
"""

import asyncio
import hashlib
import secrets
import string
import time
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from hmac import compare_digest
from typing import Any
from weakref import WeakValueDictionary

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, or_, select, update

from ett_service.core.errors import EttError
from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.storage.engine import statements
from ett_service.storage.engine.statements import insert_new
from ett_service.storage.schema import api_key, key_usage, project

SCOPES = ("write", "read", "fleet", "admin")
"""What a key may do: send events; read its project; read all projects; administer."""

_MARK = "ett_"
_RANDOM, _CHECKSUM = 30, 6
PREFIX_LENGTH = 12
"""The first so many characters of a key name it, and are no secret."""

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
NAME_LENGTH = 100

RECENT_S = 1.0
"""For so long a key that another process revoked may go on sending events to this one."""

_MOST_RECENT = 4096
_NEVER = (0.0, None)

USAGE_SLOT_US = 600 * SECOND_US
USAGE_WINDOWS = {"hour": HOUR_US, "day": DAY_US, "week": 7 * DAY_US}
"""Of which sums can be read, by name."""

_KEPT_US = 8 * DAY_US


class BadKey(EttError):
    """A key cannot be made as asked."""


class AlreadyReplaced(EttError):
    """A key has a successor already."""

    hint = "Rotate the successor, or revoke it and create a key."


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret; instants are microseconds since the Unix epoch."""

    prefix: str
    project_id: int
    project: str
    name: str
    scopes: frozenset[str]
    created_at: int
    revoked_at: int | None
    expires_at: int | None = None
    replaced_by: str | None = None  #: the prefix of its successor
    last_used_at: int | None = None

    def stands(self, now_us: int) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now_us < self.expires_at)


class RecentKeys:
    """Keys as they stood up to a second ago, for those who use one many times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, Key]] = {}  #: by digest
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def get(self, text: str, now_us: int) -> Key | None:
        """Return the key *text*, if it was seen within the last second and has not expired."""
        at, key = self._seen.get(_digest(text), _NEVER)
        if key is None or self._clock() - at >= RECENT_S or not key.stands(now_us):
            return None
        return key

    def turn(self, text: str) -> asyncio.Lock:
        """Return what lets one request at a time look up the key *text*: the next find it here."""
        return self._turns.setdefault(_digest(text), asyncio.Lock())

    def keep(self, text: str, key: Key) -> None:
        """Take note of a key that was just looked up."""
        if len(self._seen) >= _MOST_RECENT:
            self._seen = {}
        self._seen[_digest(text)] = self._clock(), key

    def forget(self) -> None:
        """Have each key looked up again."""
        self._seen = {}


_KEYS = select(
    api_key.c.prefix,
    api_key.c.project_id,
    project.c.name.label("project"),
    api_key.c.name,
    api_key.c.scopes,
    api_key.c.created_us,
    api_key.c.revoked_us,
    api_key.c.expires_us,
    api_key.c.replaced_by,
    api_key.c.last_used_us,
    api_key.c.digest,
).join(project)
_NAMED = _KEYS.where(api_key.c.prefix == bindparam("prefix"))
_PROJECT = select(project.c.id).where(project.c.name == bindparam("name"))


def create_key(
    conn: Connection,
    *,
    project: str,
    name: str,
    scopes: Collection[str],
    now_us: int,
    expires_us: int | None = None,
) -> str:
    """Store a new key and return its text, which nobody can read again; a new project is made.

    Raises ``BadKey`` for an unknown scope, a project's or key's name that cannot be shown, or one
    that has expired already.
    """
    if expires_us is not None and expires_us <= now_us:
        raise BadKey("A key must expire in the future.")
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise BadKey(f"Unknown scope: {', '.join(unknown) or 'none'}.", f"The scopes are {SCOPES}.")
    for text in (project, name):
        if not 0 < len(text) <= NAME_LENGTH or not text.isprintable() or "/" in text:
            raise BadKey("A name has 1 to 100 printable characters and no slash.")
    key = new_key_text()
    conn.execute(
        insert(api_key),
        {
            "prefix": key[:PREFIX_LENGTH],
            "project_id": create_project(conn, project, now_us),
            "name": name,
            "digest": _digest(key),
            "scopes": " ".join(scope for scope in SCOPES if scope in scopes),
            "created_us": now_us,
            "expires_us": expires_us,
        },
    )
    return key


def create_project(conn: Connection, name: str, now_us: int) -> int:
    """Return the id of the project *name*, made now unless it exists."""
    insert_new(conn, project, [{"name": name, "created_us": now_us}])
    project_id: int = conn.execute(_PROJECT, {"name": name}).scalar_one()
    return project_id


def find_key(conn: Connection, text: str, now_us: int) -> Key | None:
    """Return the key *text*, or None if it is unknown, mistyped, revoked or expired."""
    if not is_well_formed(text):
        return None
    row = conn.execute(_NAMED, {"prefix": text[:PREFIX_LENGTH]}).one_or_none()
    if row is None or not compare_digest(row.digest, _digest(text)):
        return None
    key = _key(row)
    return key if key.stands(now_us) else None


def standing_key(conn: Connection, prefix: str, now_us: int) -> Key | None:
    """Return the key that begins so, or None if it is unknown, revoked or expired."""
    key = get_key(conn, prefix)
    return key if key is not None and key.stands(now_us) else None


def list_keys(conn: Connection) -> list[Key]:
    """Return every key ever made, oldest first; revoked ones say when."""
    return [_key(row) for row in conn.execute(_KEYS.order_by(api_key.c.created_us, "prefix"))]


def rotate_key(conn: Connection, prefix: str, *, overlap_us: int, now_us: int) -> str | None:
    """Make a successor of the key that begins so, and let it expire after the overlap.

    Return the successor's text, which nobody can read again; None if no such key stands. It has
    the project, the name, the scopes and the length of life of the other, counted from now.

    Raises ``AlreadyReplaced``.
    """
    row = conn.execute(_NAMED.with_for_update(of=api_key), {"prefix": prefix}).one_or_none()
    key = None if row is None else _key(row)
    if key is None or not key.stands(now_us):
        return None
    if key.replaced_by is not None:
        raise AlreadyReplaced(f"{prefix} has a successor already: {key.replaced_by}.")
    until_us, life_us = now_us + overlap_us, None
    if key.expires_at is not None:
        until_us, life_us = min(until_us, key.expires_at), key.expires_at - key.created_at
    successor = create_key(
        conn,
        project=key.project,
        name=key.name,
        scopes=key.scopes,
        now_us=now_us,
        expires_us=None if life_us is None else now_us + life_us,
    )
    replaced = {"replaced_by": successor[:PREFIX_LENGTH], "expires_us": until_us}
    conn.execute(update(api_key).where(api_key.c.prefix == prefix).values(replaced))
    return successor


def revoke_key(conn: Connection, prefix: str, now_us: int) -> Key | None:
    """Revoke the key that begins so, from now on, and return it; None if there is no such one."""
    revoked = conn.execute(
        update(api_key)
        .where(api_key.c.prefix == prefix, api_key.c.revoked_us.is_(None))
        .values(revoked_us=now_us)
    )
    return get_key(conn, prefix) if revoked.rowcount else None


def get_key(conn: Connection, prefix: str) -> Key | None:
    """Return the key that begins so, whether it stands or not; None if there is none."""
    row = conn.execute(_NAMED, {"prefix": prefix}).one_or_none()
    return None if row is None else _key(row)


def new_key_text() -> str:
    """Return a key that was never seen: 178 random bits."""
    text = _MARK + "".join(secrets.choice(_BASE62) for _ in range(_RANDOM))
    return text + _checksum(text)


def is_well_formed(text: str) -> bool:
    """Whether *text* can be a key at all; a mistyped one cannot."""
    if len(text) != len(_MARK) + _RANDOM + _CHECKSUM or not text.isascii():
        return False
    return text.startswith(_MARK) and text.endswith(_checksum(text[:-_CHECKSUM]))


def _checksum(text: str) -> str:
    value = zlib.crc32(text.encode())
    digits = ""
    for _ in range(_CHECKSUM):
        value, digit = divmod(value, len(_BASE62))
        digits = _BASE62[digit] + digits
    return digits


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _key(row: Row[*tuple[Any, ...]]) -> Key:
    return Key(
        prefix=row.prefix,
        project_id=row.project_id,
        project=row.project,
        name=row.name,
        scopes=frozenset(row.scopes.split()),
        created_at=row.created_us,
        revoked_at=row.revoked_us,
        expires_at=row.expires_us,
        replaced_by=row.replaced_by,
        last_used_at=row.last_used_us,
    )


@dataclass(slots=True)
class Usage:
    """What was sent. Refused requests are among the requests; bytes are of bodies, as sent."""

    requests: int = 0
    refused: int = 0
    events: int = 0
    bytes: int = 0

    def add(self, other: "Usage") -> None:
        """Add up."""
        for name in _NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """What a key sent in a window."""

    key: Key
    usage: Usage


_NAMES = tuple(field.name for field in fields(Usage))
_USED = (
    update(api_key)
    .where(
        api_key.c.prefix == bindparam("of_prefix"),
        or_(api_key.c.last_used_us.is_(None), api_key.c.last_used_us < bindparam("at_us")),
    )
    .values(last_used_us=bindparam("at_us"))
)
_SUMS = (
    select(key_usage.c.prefix, *(func.sum(key_usage.c[name]).label(name) for name in _NAMES))
    .where(key_usage.c.slot_us > bindparam("after_us"))
    .group_by(key_usage.c.prefix)
)


def add_usage(
    conn: Connection,
    usages: Mapping[tuple[str, int], Usage],
    last_used: Mapping[str, int],
    now_us: int,
) -> None:
    """Add up what keys sent, by prefix and slot, and say when each was used last.

    What is older than eight days goes.
    """
    rows = [
        (prefix, slot_us, *(getattr(usage, name) for name in _NAMES))
        for (prefix, slot_us), usage in sorted(usages.items())
    ]
    statements.add(conn, key_usage, _NAMES, rows)
    used = [{"of_prefix": prefix, "at_us": at_us} for prefix, at_us in sorted(last_used.items())]
    if used:
        conn.execute(_USED, used)
    conn.execute(delete(key_usage).where(key_usage.c.slot_us < now_us - _KEPT_US))


def usage_by_key(
    conn: Connection, window_us: int, now_us: int, project_ids: Collection[int] | None
) -> list[KeyUsage]:
    """Return what each key of these projects (None: of all) sent, most bytes first.

    The window ends now, and begins with the first slot that began less than its length ago.
    """
    rows = conn.execute(_SUMS, {"after_us": now_us - window_us})
    by_prefix = {row.prefix: Usage(*(int(row._mapping[name]) for name in _NAMES)) for row in rows}  # noqa: SLF001 - public in all but name
    keys = list_keys(conn)
    shown = [key for key in keys if project_ids is None or key.project_id in project_ids]
    usages = [KeyUsage(key, by_prefix[key.prefix]) for key in shown if key.prefix in by_prefix]
    return sorted(usages, key=lambda each: (-each.usage.bytes, -each.usage.requests))
