"""Job ledgers in rows: what was folded is written, and read back equal.

The column ``answer`` holds a dataclass of ``core.answer`` as JSON; the columns beside it repeat
what SQL selects, sorts and sums by.
"""

import dataclasses
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Row, Select, Table, bindparam, delete, select

from ett_service.core.ledger.results import (
    AttemptLedger,
    Checkpoint,
    JobLedger,
    Recovery,
    Segment,
    Share,
)
from ett_service.core.words import Category, Period, Phase
from ett_service.storage import schema
from ett_service.storage.engine.statements import replace_rows
from ett_service.storage.jobs.ledger_rows import (
    ATTEMPTS,
    CHECKPOINTS,
    RECOVERIES,
    SEGMENTS,
    SHARES,
    STAGES,
    Columns,
    Head,
    Part,
    ledger_columns,
    stages,
    without_lists,
)
from ett_service.storage.record.dirty_marks import JobKey

T = TypeVar("T")


def _keyed(table: Table, length: int | None = None) -> list[Any]:
    return [column == bindparam(column.name) for column in list(table.primary_key)[:length]]


def _of_job(table: Table, *names: str) -> Select[Any]:
    return select(*(table.c[name] for name in names)).where(*_keyed(table, 2))


_PARTS = tuple(part.table for part in (ATTEMPTS, SEGMENTS, SHARES, RECOVERIES, STAGES, CHECKPOINTS))
_DROP = {table: delete(table).where(*_keyed(table)) for table in _PARTS}
_CLEAR = [delete(table).where(*_keyed(table, 2)) for table in _PARTS]

_HEAD = _of_job(
    schema.job_ledger, "revision", "formula_version", "event_count", "folded_us", "due_us"
)
_LEDGER = _of_job(schema.job_ledger, "answer")
_ATTEMPTS = _of_job(schema.attempt_ledger, "answer").order_by(schema.attempt_ledger.c.number)
_RECOVERIES = _of_job(schema.recovery, "answer").order_by(
    schema.recovery.c.started_us, schema.recovery.c.interrupted
)
_SEGMENTS = _of_job(
    schema.segment, "started_us", "ended_us", "category", "period", "number"
).order_by(schema.segment.c.started_us)
_CHECKPOINTS = _of_job(
    schema.checkpoint, "id", "number", "saved_us", "step", "bytes", "duration_us"
).order_by(schema.checkpoint.c.number, schema.checkpoint.c.saved_us, schema.checkpoint.c.id)
_SHARES = _of_job(schema.share, "category", "period", "phase", "us", "weighted_us", "gpu_us")
_ROWS = {
    table: _of_job(table, *(column.name for column in list(table.columns)[2:]))
    for table in (schema.job_ledger, *_PARTS)
}

_read_ledger = msgspec.json.Decoder(JobLedger).decode
_read_attempt = msgspec.json.Decoder(AttemptLedger).decode
_read_recovery = msgspec.json.Decoder(Recovery).decode


def replace(
    conn: Connection,
    key: JobKey,
    ledger: JobLedger,
    head: Head,
    *,
    previous: JobLedger | None = None,
    changed_from: int | None = None,
) -> None:
    """Write the job's ledger over the one that is stored.

    *previous* is what is stored, where the caller knows it: then only what differs is written,
    and segments that start before *changed_from* are taken to be equal unseen.
    """
    if previous is None:
        if head.revision > 1:
            for statement in _CLEAR:
                conn.execute(statement, key._asdict())
        previous, changed_from = without_lists(ledger), None
    _put(conn, key, schema.job_ledger, [ledger_columns(ledger, head)])
    _replace_part(conn, key, ATTEMPTS, previous.attempts, ledger.attempts)
    _replace_part(conn, key, SHARES, previous.shares, ledger.shares)
    _replace_part(conn, key, RECOVERIES, previous.recoveries, ledger.recoveries)
    _replace_part(conn, key, STAGES, stages(previous), stages(ledger))
    _replace_part(conn, key, CHECKPOINTS, previous.checkpoints, ledger.checkpoints)
    before = _tail(previous.segments, changed_from)
    _replace_part(conn, key, SEGMENTS, before, _tail(ledger.segments, changed_from))


def _tail(segments: Sequence[Segment], since: int | None) -> Sequence[Segment]:
    return segments if since is None else segments[bisect_left(segments, (since,)) :]


def _replace_part(
    conn: Connection, key: JobKey, part: Part[T], before: Sequence[T], after: Sequence[T]
) -> None:
    alike = _common_start(before, after)
    gone = {part.key(item): item for item in before[alike:]}
    changed = [
        part.columns(item) for item in after[alike:] if gone.pop(part.key(item), None) != item
    ]
    if gone:
        dropped = [key._asdict() | part.key_columns(place) for place in gone]
        conn.execute(_DROP[part.table], dropped)
    if changed:
        _put(conn, key, part.table, changed)


def _common_start(before: Sequence[T], after: Sequence[T]) -> int:
    for place, (one, other) in enumerate(zip(before, after, strict=False)):
        if one is not other and one != other:
            return place
    return min(len(before), len(after))


def _put(conn: Connection, key: JobKey, table: Table, rows: Sequence[Columns]) -> None:
    replace_rows(conn, table, [key._asdict() | row for row in rows])


def head(conn: Connection, key: JobKey) -> Head | None:
    """Read the head of a job's ledger; None if it has none yet."""
    row = conn.execute(_HEAD, key._asdict()).first()
    return Head(*row) if row else None


def job_ledger(conn: Connection, project_id: int, job: str) -> JobLedger | None:
    """Read a job's ledger without segments and checkpoints; None if it has none yet.

    Its waits and its work by hour are not kept: they are what its part of the rollups is made of.
    """
    of_job = JobKey(project_id, job)._asdict()
    text = conn.scalar(_LEDGER, of_job)
    if text is None:
        return None
    shares = [_share(row) for row in conn.execute(_SHARES, of_job)]
    return dataclasses.replace(
        _read_ledger(text),
        shares=tuple(sorted(shares, key=SHARES.key)),
        attempts=tuple(_read_attempt(text) for text in conn.scalars(_ATTEMPTS, of_job)),
        recoveries=tuple(_read_recovery(text) for text in conn.scalars(_RECOVERIES, of_job)),
    )


def segments(conn: Connection, project_id: int, job: str) -> list[Segment]:
    """Read a job's segments in order of time."""
    of_job = JobKey(project_id, job)._asdict()
    return [_segment(row) for row in conn.execute(_SEGMENTS, of_job)]


def checkpoints(conn: Connection, project_id: int, job: str) -> list[Checkpoint]:
    """Read a job's durable checkpoints, by attempt and then in order of time."""
    of_job = JobKey(project_id, job)._asdict()
    return [Checkpoint(*row) for row in conn.execute(_CHECKPOINTS, of_job)]


def stored_rows(conn: Connection, key: JobKey) -> dict[Table, list[Columns]]:
    """Read all rows of the job's ledger as they are, without project and job."""
    return {
        table: [dict(row) for row in conn.execute(statement, key._asdict()).mappings()]
        for table, statement in _ROWS.items()
    }


def _segment(row: Row[*tuple[Any, ...]]) -> Segment:
    start_at, end_at, category, period, number = row
    return Segment(start_at, end_at, Category(category), Period(period), number)


def _share(row: Row[*tuple[Any, ...]]) -> Share:
    category, period, phase, *amounts = row
    return Share(Category(category), Period(period), Phase(phase) if phase else None, *amounts)
