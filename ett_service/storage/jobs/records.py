"""What a fold reads of a job: its events, the clocks to correct, and what people corrected."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from ett_service.core.events import Event
from ett_service.core.ledger.attempts import TOLERANCE_US
from ett_service.storage.record import corrections
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.corrections import Corrections
from ett_service.storage.record.dirty_marks import JobBatch, JobKey, of_jobs
from ett_service.storage.record.events import DECODERS
from ett_service.storage.schema import correction, event, producer

_NO_CORRECTIONS = Corrections({}, ())

# A job has as many producers as processes ever took part in it, and nearly all of their clocks are
# right: the database leaves those out, as the fold would.
_WRONG = func.abs(producer.c.offset_us) > TOLERANCE_US
_CLOCKS = select(producer.c.producer, producer.c.offset_us).where(
    producer.c.project_id == bindparam("project_id"), producer.c.job == bindparam("job"), _WRONG
)
_CLOCKS_OF_JOBS = select(producer.c.job, producer.c.producer, producer.c.offset_us).where(
    *of_jobs(producer), _WRONG
)
_EVENTS_OF_JOBS = select(event.c.job, event.c.type, event.c.body).where(*of_jobs(event))
_CORRECTED = (
    select(correction.c.job)
    .where(*of_jobs(correction), correction.c.taken_back_us.is_(None))
    .distinct()
)


class JobRecord(NamedTuple):
    """A job as it was told."""

    key: JobKey
    events: Sequence[Event]  #: in no order
    clock_offsets: Mapping[str, int]  #: microseconds by producer, of the clocks that are wrong
    corrections: Corrections


def read(conn: Connection, key: JobKey, batches: Collection[int] | None = None) -> JobRecord:
    """Read a job; of its events only those of the *batches*, where they are given."""
    events = (
        [] if batches is not None and not batches else stored_events.events(conn, *key, batches)
    )
    rows = conn.execute(_CLOCKS, key._asdict())
    clocks = {row.producer: row.offset_us for row in rows}
    return JobRecord(key, events, clocks, corrections.of_job(conn, key))


def read_batch(conn: Connection, batch: JobBatch) -> Iterator[JobRecord]:
    """Read jobs of a project, each kind of thing in one statement.

    Events are decoded job by job: those of one fit into a processor's cache, those of all of
    them do not.
    """
    wanted = batch.parameters()
    clocks: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, sender, offset_us in conn.execute(_CLOCKS_OF_JOBS, wanted):
        clocks[name][sender] = offset_us
    corrected = {
        name: corrections.of_job(conn, JobKey(batch.project_id, name))
        for name in conn.scalars(_CORRECTED, wanted)
    }
    bodies: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, kind, body in conn.execute(_EVENTS_OF_JOBS, wanted).all():
        bodies[name].append((kind, body))
    for name in batch.jobs:
        yield JobRecord(
            JobKey(batch.project_id, name),
            [DECODERS[kind](body) for kind, body in bodies.pop(name, ())],
            clocks.get(name, {}),
            corrected.get(name, _NO_CORRECTIONS),
        )
