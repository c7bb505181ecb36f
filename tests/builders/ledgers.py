"""Events put into a store as accepted, each delivery a batch with its mark."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, delete, insert, select

from ett_service.aggregation.fold_job import KeptFold, refresh
from ett_service.core.events import AttemptStarted, Event, PhaseStarted
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS, Limits
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Phase
from ett_service.storage.engine.statements import insert_new
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.folded_jobs import look_at
from ett_service.storage.jobs import ledgers
from ett_service.storage.record import dirty_marks
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.events import encode_body
from ett_service.storage.schema import dirty, event, job, producer
from tests.builders.clock import MINUTE, NOON, RECEIVED_AT, SECOND
from tests.builders.record import event as fact
from tests.builders.record import progress

_batches = itertools.count(1)


def running_job() -> list[Event]:
    """A job whose only attempt has trained for ten minutes."""
    return [
        fact(AttemptStarted, gpus=8),
        fact(PhaseStarted, NOON + MINUTE, phase=Phase.TRAIN_LOOP),
        *(progress(step, NOON + MINUTE + step * 10 * SECOND) for step in range(60)),
    ]


LATE_IN_IT = NOON + 12 * MINUTE


def accept(
    conn: Connection,
    key: JobKey,
    events: Sequence[Event],
    offsets: Mapping[str, int] | None = None,
) -> None:
    """Store what is new among *events* and *offsets*, and mark the job."""
    of_job, batch = key._asdict(), next(_batches)
    insert_new(conn, job, [{**of_job, "received_us": RECEIVED_AT}])
    rows = [
        {
            **of_job,
            "id": fact.id,
            "type": fact.type,
            "at_us": fact.at,
            "received_us": RECEIVED_AT,
            "batch": batch,
            "body": encode_body(fact),
        }
        for fact in sorted(events, key=lambda fact: fact.id)
    ]
    insert_new(conn, event, rows)
    if offsets is not None:
        conn.execute(
            delete(producer).where(
                producer.c.project_id == key.project_id, producer.c.job == key.job
            )
        )
        insert_new(
            conn,
            producer,
            [
                {**of_job, "producer": name, "offset_us": offset}
                for name, offset in sorted(offsets.items())
            ],
        )
    conn.execute(insert(dirty), {**of_job, "batch": batch, "marked_us": RECEIVED_AT + batch})


def deliver(
    store: Store,
    key: JobKey,
    events: Sequence[Event],
    offsets: Mapping[str, int] | None = None,
) -> None:
    """Accept in a transaction of its own."""
    store.write(lambda conn: accept(conn, key, events, offsets))


def refreshed(
    store: Store,
    key: JobKey,
    now_us: int,
    kept_fold: KeptFold | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> KeptFold | None:
    """Refresh in a transaction of its own, and merge in another, as the worker does."""
    kept = store.write(lambda conn: refresh(conn, key, now_us, kept_fold, limits))
    store.write(rollup_deltas.merge)
    return kept


def stored(store: Store, key: JobKey) -> JobLedger | None:
    """Read the stored ledger of the job with its segments and checkpoints."""
    with store.reading() as conn:
        ledger = ledgers.job_ledger(conn, *key)
        segments = tuple(ledgers.segments(conn, *key))
        checkpoints = tuple(ledgers.checkpoints(conn, *key))
    if ledger is None:
        return None
    return replace(ledger, segments=segments, checkpoints=checkpoints)


def recomputed(
    store: Store, key: JobKey, now_us: int, limits: Limits = DEFAULT_LIMITS
) -> JobLedger:
    """Fold all events of the job, and leave out what is not stored."""
    with store.reading() as conn:
        whole = fold(
            stored_events.events(conn, *key), stored_events.offsets(conn, *key), now_us, limits
        )
    return replace(whole, waits=(), owned_waits=(), work=())


def marks(store: Store, key: JobKey) -> Sequence[int]:
    """Return the batches that the job's marks name."""
    with store.reading() as conn:
        job = look_at(conn, key, whole=False)
    return () if job is None else job.marks.batches


def every_job(conn: Connection) -> list[JobKey]:
    """Return every job of every project."""
    columns = (job.c.project_id, job.c.job)
    return [JobKey(*row) for row in conn.execute(select(*columns).order_by(*columns))]


def marked(store: Store) -> list[JobKey]:
    """Return the jobs that are marked as changed."""
    with store.reading() as conn:
        return [*dirty_marks.waiting(conn, 0, 100).last_marked_us]
