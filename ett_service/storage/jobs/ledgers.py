"""Job ledgers read back from their rows, equal to what was folded.

The column ``answer`` holds a dataclass of ``core.answer`` as JSON; the columns beside it repeat
what SQL selects, sorts and sums by.
"""

import dataclasses
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, Table, bindparam, select

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
from ett_service.storage.jobs.ledger_rows import SHARES, Head
from ett_service.storage.record.dirty_marks import JobKey


def _of_job(table: Table, *names: str) -> Select[Any]:
    return select(*(table.c[name] for name in names)).where(
        table.c.project_id == bindparam("project_id"), table.c.job == bindparam("job")
    )


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
).order_by(*(schema.checkpoint.c[name] for name in ("number", "saved_us", "step", "id")))
_SHARES = _of_job(schema.share, "category", "period", "phase", "us", "weighted_us", "gpu_us")

_read_ledger = msgspec.json.Decoder(JobLedger).decode
_read_attempt = msgspec.json.Decoder(AttemptLedger).decode
_read_recovery = msgspec.json.Decoder(Recovery).decode


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


def _segment(row: Row[*tuple[Any, ...]]) -> Segment:
    start_at, end_at, category, period, number = row
    return Segment(start_at, end_at, Category(category), Period(period), number)


def _share(row: Row[*tuple[Any, ...]]) -> Share:
    category, period, phase, *amounts = row
    return Share(Category(category), Period(period), Phase(phase) if phase else None, *amounts)
