"""The audit log: who did what about keys, receivers, findings, corrections and the settings.

An entry is written in the transaction of what it records, so that neither stands without the
other. The database refuses to change or to delete one.
"""

import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, insert, select, tuple_

from ett_service.core.intervals import rfc3339
from ett_service.storage.engine.statements import replace_rows
from ett_service.storage.record.keys import Key
from ett_service.storage.schema import audit_log, project
from ett_service.storage.schema import store as facts

_ID_BYTES = 9
_SETTINGS = "settings"


class Action(StrEnum):
    """What was done."""

    KEY_CREATED = "key_created"
    KEY_ROTATED = "key_rotated"
    KEY_REVOKED = "key_revoked"
    RECEIVER_CREATED = "receiver_created"
    RECEIVER_ROTATED = "receiver_rotated"
    RECEIVER_TESTED = "receiver_tested"
    RECEIVER_DELETED = "receiver_deleted"
    DELIVERIES_REPLAYED = "deliveries_replayed"
    MUTE_CREATED = "mute_created"
    MUTE_TAKEN_BACK = "mute_taken_back"
    REGRESSION_TRIAGED = "regression_triaged"
    SUSPECT_RULED_OUT = "suspect_ruled_out"
    REGRESSION_ACKNOWLEDGED = "regression_acknowledged"
    REGRESSION_ACCEPTED = "regression_accepted"
    TUNING_RESET = "tuning_reset"
    VERDICT_SET = "verdict_set"
    VERDICT_TAKEN_BACK = "verdict_taken_back"
    EXCLUSION_SET = "exclusion_set"
    EXCLUSION_TAKEN_BACK = "exclusion_taken_back"
    MARKER_DELETED = "marker_deleted"
    JOB_DELETED = "job_deleted"
    RECORD_PRUNED = "record_pruned"
    SETTINGS_CHANGED = "settings_changed"
    STORE_RESTORED = "store_restored"


class Via(StrEnum):
    """How it was done: over HTTP, on a page, by a command beside the database, by a start."""

    API = "api"
    PAGE = "page"
    COMMAND = "command"
    START = "start"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. ``made_by`` is the prefix of a key; None for whoever runs a command."""

    made_by: str | None
    made_by_name: str  #: of the key, or of the user of the machine
    made_via: Via
    made_from: str  #: an address, or the name of a machine


@dataclass(frozen=True, slots=True)
class AdminAct:
    """What is done to what. *details* are members of a JSON object; none of them is a secret."""

    action: Action
    target: str = ""  #: such as the prefix of a key, or the name of a job
    project_id: int | None = None  #: None for what is of no project
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the log; ``at_us`` is in microseconds since the Unix epoch."""

    at_us: int
    id: str
    action: Action
    project: str | None
    target: str
    details: Mapping[str, Any]
    made_by: str | None
    made_by_name: str
    made_via: Via
    made_from: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries; all by default."""

    from_us: int | None = None
    to_us: int | None = None
    actions: Collection[Action] = ()
    made_by: str | None = None  #: the prefix of a key
    project: str | None = None
    target: str | None = None


_ENTRIES = select(audit_log, project.c.name.label("project")).outerjoin(
    project, project.c.id == audit_log.c.project_id
)


def record(conn: Connection, actor: Actor, act: AdminAct, now_us: int) -> None:
    """Add an entry."""
    row = {
        "at_us": now_us,
        "id": secrets.token_hex(_ID_BYTES),
        "action": act.action.value,
        "project_id": act.project_id,
        "target": act.target,
        "details": json.dumps(dict(act.details), ensure_ascii=False),
        "made_by": actor.made_by,
        "made_by_name": actor.made_by_name,
        "made_via": actor.made_via.value,
        "made_from": actor.made_from,
    }
    conn.execute(insert(audit_log), row)


def made_key(key: Key, act: AdminAct) -> AdminAct:
    """Complete what is recorded of a new *key*; a key that it replaces is the target of *act*."""
    details: dict[str, object] = {"name": key.name, "scopes": sorted(key.scopes)}
    if key.expires_at is not None:
        details["expires_at"] = rfc3339(key.expires_at)
    if act.target:
        details |= {"successor": key.prefix, **act.details}
    target = act.target or key.prefix
    return replace(act, target=target, project_id=key.project_id, details=details)


def exchange_settings(
    conn: Connection, settings: Mapping[str, object]
) -> Mapping[str, object] | None:
    """Keep the *settings* of a server that starts, and return the former ones, if there are any."""
    kept = select(facts.c.value).where(facts.c.name == _SETTINGS).with_for_update()
    before = conn.execute(kept).scalar_one_or_none()
    row = {"name": _SETTINGS, "value": json.dumps(dict(settings), ensure_ascii=False)}
    replace_rows(conn, facts, [row])
    former: Mapping[str, object] | None = None if before is None else json.loads(before)
    return former


def listing(
    conn: Connection,
    wanted: AuditFilter,
    *,
    limit: int,
    after: tuple[int, str] | None = None,
) -> list[Entry]:
    """Read entries, the latest first; *after* is ``at_us`` and id of the last one before."""
    columns = audit_log.c
    conditions = [
        columns.at_us >= wanted.from_us if wanted.from_us is not None else None,
        columns.at_us < wanted.to_us if wanted.to_us is not None else None,
        columns.action.in_(wanted.actions) if wanted.actions else None,
        columns.made_by == wanted.made_by if wanted.made_by is not None else None,
        project.c.name == wanted.project if wanted.project is not None else None,
        columns.target == wanted.target if wanted.target is not None else None,
        tuple_(columns.at_us, columns.id) < tuple_(*after) if after is not None else None,
    ]
    statement = _ENTRIES.where(*(each for each in conditions if each is not None))
    ordered = statement.order_by(columns.at_us.desc(), columns.id.desc()).limit(limit)
    return [_entry(row) for row in conn.execute(ordered)]


def _entry(row: Row[*tuple[Any, ...]]) -> Entry:
    return Entry(
        at_us=row.at_us,
        id=row.id,
        action=Action(row.action),
        project=row.project,
        target=row.target,
        details=json.loads(row.details),
        made_by=row.made_by,
        made_by_name=row.made_by_name,
        made_via=Via(row.made_via),
        made_from=row.made_from,
    )
