"""What each key sends: sums of ten minutes, written now and then by whoever serves."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

from sqlalchemy import Connection, bindparam, delete, func, or_, select, update

from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.storage.engine import statements
from ett_service.storage.record.keys import Key, list_keys
from ett_service.storage.schema import api_key, key_usage

USAGE_SLOT_US = 600 * SECOND_US
USAGE_WINDOWS = {"hour": HOUR_US, "day": DAY_US, "week": 7 * DAY_US}
"""Of which sums can be read, by name."""

_KEPT_US = 8 * DAY_US


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
