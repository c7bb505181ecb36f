"""Job ledgers in rows, and read back from them, equal to what was folded.

The column ``answer`` holds a dataclass of ``core.ledger.results`` as JSON; the columns beside it
repeat what SQL selects, sorts and sums by.
"""

import dataclasses
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from sqlalchemy import Connection, Row, Select, Table, bindparam, select

from ett_service.core.dimensions import JOB_COLUMNS
from ett_service.core.intervals import LARGEST_STORED
from ett_service.core.ledger.results import (
    AttemptLedger,
    Checkpoint,
    DataWait,
    JobLedger,
    Recovery,
    Segment,
    Share,
    Speed,
    StageSum,
    WaitShare,
)
from ett_service.core.words import (
    CATEGORY_BY_NAME,
    PERIOD_BY_NAME,
    Category,
    JobState,
    Owner,
    Period,
    Phase,
    WaitPart,
)
from ett_service.storage import schema
from ett_service.storage.record.dirty_marks import JobKey

Columns: TypeAlias = dict[str, Any]
T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Head:
    """What is kept of a job's ledger beside what the fold says."""

    revision: int  #: counts the writes
    formula_version: int
    event_count: int
    folded_us: int  #: as of which instant the events were folded
    due_us: int | None  #: when time alone will have outdated the numbers


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A list of the ledger that has a table of its own."""

    table: Table
    items: Callable[[JobLedger], Sequence[T]]
    key: Callable[[T], tuple[Hashable, ...]]  #: the primary key behind project and job
    columns: Callable[[T], Columns]  #: all columns behind project and job, in the table's order


def answer(value: object) -> str:
    """Write a dataclass of the core as JSON."""
    return _ENCODER.encode(value).decode()


def without_lists(ledger: JobLedger) -> JobLedger:
    """Return the ledger without what has tables of its own."""
    return dataclasses.replace(
        ledger,
        segments=(),
        shares=(),
        attempts=(),
        recoveries=(),
        waits=(),
        owned_waits=(),
        wait_shares=(),
        work=(),
        checkpoints=(),
    )


def ledger_columns(ledger: JobLedger, head: Head) -> Columns:
    """Return the columns of ``job_ledger`` behind project and job."""
    facts = ledger.facts
    return {
        "revision": head.revision,
        "formula_version": head.formula_version,
        "event_count": head.event_count,
        "folded_us": head.folded_us,
        "state": ledger.state.value,
        "as_of_us": ledger.as_of,
        "due_us": head.due_us,
        "started_us": ledger.started_at,
        "ended_us": ledger.ended_at,
        "e2e_us": ledger.e2e_us,
        "effective_us": sum(
            part.us for part in ledger.shares if part.category is Category.EFFECTIVE_TRAINING
        ),
        "lost_weighted_us": lost_us(ledger.shares, attrgetter("weighted_us")),
        "lost_gpu_us": lost_us(ledger.shares, attrgetter("gpu_us")),
        "queue_wait_us": ledger.queue_wait_us,
        "runs": len(ledger.runs),
        "between_runs_us": ledger.between_runs_us,
        **_speed_columns(ledger.speed),
        **_data_wait_columns(ledger.data_wait),
        "time_to_start_us": ledger.time_to_start_us,
        "failures": ledger.failures,
        "infra_failures": ledger.infra_failures,
        "unsaved_us": ledger.unsaved_us,
        **{name: getattr(facts, name) for name in JOB_COLUMNS},
        "gpus": facts.gpus,
        **ledger.produced._asdict(),
        "answer": answer(without_lists(ledger)),
    }


def lost_us(shares: Sequence[Share], amount: Callable[[Share], int | None]) -> int | None:
    """Sum an *amount* of all but effective training; None for no time, or where one is unknown."""
    if not shares:
        return None
    total = 0
    for share in shares:
        us = amount(share)
        if us is None:
            return None
        total += 0 if share.category is Category.EFFECTIVE_TRAINING else us
    return min(total, LARGEST_STORED)


def _speed_columns(speed: Speed) -> Columns:
    return {
        "effective_at_reference_us": speed.known_at_reference_us,
        "slowed_us": speed.known_slowed_us,
    }


def _data_wait_columns(wait: DataWait | None) -> Columns:
    return {
        "data_wait_us": None if wait is None else wait.us,
        "data_wait_loop_us": None if wait is None else wait.loop_us,
    }


def _attempt_columns(attempt: AttemptLedger) -> Columns:
    return {
        "number": attempt.number,
        "launch": attempt.launch,
        "attempt": attempt.attempt,
        "cycle": attempt.cycle,
        "started_us": attempt.started_at,
        "ended_us": attempt.ended_at,
        "outcome": attempt.outcome.value,
        "origin": attempt.origin and attempt.origin.value,
        "cause": attempt.cause and attempt.cause.value,
        "gpus": attempt.gpus,
        "code_version": attempt.code_version,
        "effective_us": attempt.categories_us.get(Category.EFFECTIVE_TRAINING, 0),
        **_speed_columns(attempt.speed),
        **_data_wait_columns(attempt.data_wait),
        "telemetry_us": attempt.telemetry_us,
        "unsaved_us": attempt.unsaved_us,
        "preempted_by": attempt.preempted_by,
        "last_step": attempt.last_step,
        "rule": attempt.evidence and attempt.evidence.rule,
        "evidence": attempt.evidence and attempt.evidence.text,
        "corrected": attempt.verdict is not None,
        "answer": answer(attempt),
    }


def _segment_columns(segment: Segment) -> Columns:
    return {
        "started_us": segment.start_at,
        "ended_us": segment.end_at,
        "category": segment.category.value,
        "period": segment.period.value,
        "number": segment.number,
    }


def _share_key(share: Share) -> tuple[Hashable, ...]:
    return (share.category.value, share.period.value, share.phase.value if share.phase else "")


def _share_columns(share: Share) -> Columns:
    category, period, phase = _share_key(share)
    return {
        "category": category,
        "period": period,
        "phase": phase,
        "us": share.us,
        "weighted_us": share.weighted_us,
        "gpu_us": share.gpu_us,
    }


def _wait_key(share: WaitShare) -> tuple[Hashable, ...]:
    return (share.part.value, share.owner.value)


def _wait_columns(share: WaitShare) -> Columns:
    return {
        "part": share.part.value,
        "owner": share.owner.value,
        "us": share.us,
        "weighted_us": share.weighted_us,
    }


def _recovery_columns(recovery: Recovery) -> Columns:
    return {
        "interrupted": recovery.interrupted,
        "started_us": recovery.start_at,
        "resumed": recovery.resumed,
        "us": recovery.us,
        "outcome": recovery.outcome.value,
        "stalled_us": recovery.stalled_us,
        "repeated_us": recovery.repeated_us,
        "answer": answer(recovery),
    }


def _stage_key(item: tuple[int, StageSum]) -> tuple[Hashable, ...]:
    number, stage = item
    return (number, stage.phase.value, stage.stage)


def _stage_columns(item: tuple[int, StageSum]) -> Columns:
    number, stage = item
    return {"number": number, **stage._asdict(), "phase": stage.phase.value}


def _checkpoint_columns(checkpoint: Checkpoint) -> Columns:
    return {
        "id": checkpoint.id,
        "number": checkpoint.number,
        "saved_us": checkpoint.saved_at,
        "step": checkpoint.step,
        "bytes": checkpoint.bytes,
        "duration_us": checkpoint.duration_us,
    }


def _stages(ledger: JobLedger) -> list[tuple[int, StageSum]]:
    return [(attempt.number, stage) for attempt in ledger.attempts for stage in attempt.stages]


ATTEMPTS: Part[AttemptLedger] = Part(
    schema.attempt_ledger,
    attrgetter("attempts"),
    lambda attempt: (attempt.number,),
    _attempt_columns,
)
SEGMENTS: Part[Segment] = Part(
    schema.segment, attrgetter("segments"), lambda segment: (segment.start_at,), _segment_columns
)
SHARES: Part[Share] = Part(schema.share, attrgetter("shares"), _share_key, _share_columns)
WAITS: Part[WaitShare] = Part(
    schema.wait_share, attrgetter("wait_shares"), _wait_key, _wait_columns
)
STAGES: Part[tuple[int, StageSum]] = Part(schema.stage_time, _stages, _stage_key, _stage_columns)
CHECKPOINTS: Part[Checkpoint] = Part(
    schema.checkpoint,
    attrgetter("checkpoints"),
    lambda checkpoint: (checkpoint.id,),
    _checkpoint_columns,
)
RECOVERIES: Part[Recovery] = Part(
    schema.recovery,
    attrgetter("recoveries"),
    attrgetter("interrupted", "start_at"),
    _recovery_columns,
)
PARTS: tuple[Part[Any], ...] = (ATTEMPTS, SEGMENTS, SHARES, WAITS, STAGES, CHECKPOINTS, RECOVERIES)


def rows(ledger: JobLedger, head: Head) -> dict[Table, list[Columns]]:
    """Return all rows of a ledger, without project and job."""
    return {
        schema.job_ledger: [ledger_columns(ledger, head)],
        **{part.table: [part.columns(item) for item in part.items(ledger)] for part in PARTS},
    }


def _of_job(table: Table, *names: str) -> Select[Any]:
    return select(*(table.c[name] for name in names)).where(
        table.c.project_id == bindparam("project_id"), table.c.job == bindparam("job")
    )


HEAD = _of_job(
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

_WAITS = _of_job(schema.wait_share, "part", "owner", "us", "weighted_us")

_read_ledger = msgspec.json.Decoder(JobLedger).decode
_read_attempt = msgspec.json.Decoder(AttemptLedger).decode
_read_recovery = msgspec.json.Decoder(Recovery).decode


def head(conn: Connection, key: JobKey) -> Head | None:
    """Read the head of a job's ledger; None if it has none yet."""
    row = conn.execute(HEAD, key._asdict()).first()
    return Head(*row) if row else None


def job_ledger(conn: Connection, project_id: int, job: str) -> JobLedger | None:
    """Read a job's ledger without segments and checkpoints; None if it has none yet.

    Its waits and its work by hour are not kept: they are what its part of the rollups is made of.
    """
    of_job = JobKey(project_id, job)._asdict()
    text = conn.scalar(_LEDGER, of_job)
    if text is None:
        return None
    shares = [_share(row) for row in conn.execute(_SHARES, of_job).all()]
    return dataclasses.replace(
        _read_ledger(text),
        shares=tuple(sorted(shares, key=SHARES.key)),
        wait_shares=tuple(sorted(map(_wait, conn.execute(_WAITS, of_job)))),
        attempts=tuple(_read_attempt(text) for text in conn.scalars(_ATTEMPTS, of_job).all()),
        recoveries=tuple(_read_recovery(text) for text in conn.scalars(_RECOVERIES, of_job).all()),
    )


class _Ended(msgspec.Struct):
    """Of a job's answer only what its ``job_ended`` says."""

    outcome: str | None = None


_read_ended = msgspec.json.Decoder(_Ended).decode


def finished(conn: Connection, project_id: int, jobs: Collection[str]) -> dict[str, str | None]:
    """Return which of *jobs* are finished, as far as they are folded, each with its outcome.

    That is None where no ``job_ended`` stands.
    """
    columns = schema.job_ledger.c
    rows = conn.execute(
        select(columns.job, columns.answer).where(
            columns.project_id == project_id,
            columns.job.in_(jobs),
            columns.state == JobState.FINISHED,
        )
    )
    return {job: _read_ended(text).outcome for job, text in rows}


def segments(conn: Connection, project_id: int, job: str) -> list[Segment]:
    """Read a job's segments in order of time."""
    of_job = JobKey(project_id, job)._asdict()
    return [_segment(row) for row in conn.execute(_SEGMENTS, of_job).all()]


def checkpoints(conn: Connection, project_id: int, job: str) -> list[Checkpoint]:
    """Read a job's durable checkpoints, by attempt and then in order of time."""
    of_job = JobKey(project_id, job)._asdict()
    return [Checkpoint(*row) for row in conn.execute(_CHECKPOINTS, of_job).all()]


def _segment(row: Row[*tuple[Any, ...]]) -> Segment:
    start_at, end_at, category, period, number = row
    return Segment(start_at, end_at, CATEGORY_BY_NAME[category], PERIOD_BY_NAME[period], number)


def _share(row: Row[*tuple[Any, ...]]) -> Share:
    category, period, phase, *amounts = row
    return Share(Category(category), Period(period), Phase(phase) if phase else None, *amounts)


def _wait(row: Row[*tuple[Any, ...]]) -> WaitShare:
    part, owner, *amounts = row
    return WaitShare(WaitPart(part), Owner(owner), *amounts)
