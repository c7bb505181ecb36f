"""What a fold has to know of a job, read in one round trip to PostgreSQL.

SQLite, which is no trip away and has one writer, is asked one thing after the other.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, all_, and_, bindparam, select
from sqlalchemy.dialects.postgresql import ARRAY

from ett_service.storage.engine.trips import begin_and_read, read_and_end
from ett_service.storage.jobs import ledgers
from ett_service.storage.jobs.ledgers import HEAD, Head
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import (
    BATCHES,
    BORN,
    CLAIM,
    JobKey,
    Marks,
    marks_from,
)
from ett_service.storage.record.events import (
    CLOCKS,
    EVENTS,
    STANDING_CORRECTIONS,
    JobRecord,
    corrections_from,
    decode_body,
    events,
    job_parameters,
    job_record,
)
from ett_service.storage.schema import dirty, event

_Rows = Sequence[tuple[Any, ...]]

#: By batch, those that marks name and a fold does not know; a batch without events of the job, too.
_MARKED_EVENTS = (
    select(dirty.c.batch, event.c.type, event.c.id, event.c.at_us, event.c.body)
    .outerjoin_from(
        dirty,
        event,
        and_(
            event.c.project_id == dirty.c.project_id,
            event.c.job == dirty.c.job,
            event.c.batch == dirty.c.batch,
        ),
    )
    .where(
        dirty.c.project_id == bindparam("project_id"),
        dirty.c.job == bindparam("job"),
        dirty.c.batch != all_(bindparam("folded", type_=ARRAY(BigInteger))),
    )
)


class WholeJob(NamedTuple):
    """A job and all of its events; what comes later in this list may know more."""

    born_us: int | None  #: when its first event came; None if there is no such job
    head: Head | None  #: of the ledger that is stored
    batches: Sequence[int]  #: that the marks name
    record: JobRecord


class ClaimedJob(NamedTuple):
    """A job that is locked until the transaction ends, and whose marks are deleted."""

    born_us: int
    marks: Marks
    head: Head | None
    record: JobRecord  #: with the events that are new to the fold


def read_whole(conn: Connection, key: JobKey) -> WholeJob:
    """Read a job, and lock nothing; *conn* reads no more."""
    born, head, batches, all_events, clocks, corrections = read_and_end(
        conn,
        [
            (statement, _parameters(key))
            for statement in (BORN, HEAD, BATCHES, EVENTS, CLOCKS, STANDING_CORRECTIONS)
        ],
    )
    return WholeJob(
        born[0][0] if born else None,
        _head(head),
        [batch for (batch,) in batches],
        _record(key, all_events, clocks, corrections),
    )


def claim(conn: Connection, key: JobKey, folded: Collection[int] | None) -> ClaimedJob | None:
    """Lock a job, delete its marks, and read what they stand for.

    None, and nothing has changed, if another worker holds it, or if it was deleted or pruned.
    The record leaves out the batches that were *folded*; it has all events where that is None.
    """
    if conn.dialect.name == "sqlite" or folded is None:
        return _claim(conn, key, folded)
    parameters = _parameters(key)
    marked, claimed, head, clocks, corrections = begin_and_read(
        conn,
        [
            (_MARKED_EVENTS, {**parameters, "folded": list(folded)}),
            *[(each, parameters) for each in (CLAIM, HEAD, CLOCKS, STANDING_CORRECTIONS)],
        ],
    )
    if not claimed:
        return None
    marks = marks_from((batch, us) for _, batch, us in claimed if batch is not None)
    stored = (row for _, *row in marked if row[0] is not None)
    record = _record(key, stored, clocks, corrections)
    # What was marked between the two statements.
    if later := set(marks.batches) - {batch for batch, *_ in marked} - set(folded):
        record = record._replace(events=[*record.events, *events(conn, *key, later)])
    return ClaimedJob(claimed[0][0], marks, _head(head), record)


def _claim(conn: Connection, key: JobKey, folded: Collection[int] | None) -> ClaimedJob | None:
    born_us = dirty_marks.lock(conn, key)
    if born_us is None:
        return None
    marks = dirty_marks.take(conn, key)
    head = ledgers.head(conn, key)
    unread = None if folded is None else [each for each in marks.batches if each not in folded]
    return ClaimedJob(born_us, marks, head, job_record(conn, key, unread))


def _parameters(key: JobKey) -> dict[str, object]:
    return {**key._asdict(), **job_parameters(key)}


def _head(rows: _Rows) -> Head | None:
    return Head(*rows[0]) if rows else None


def _record(
    key: JobKey, stored: Iterable[Sequence[Any]], clocks: _Rows, corrections: _Rows
) -> JobRecord:
    return JobRecord(
        key,
        [decode_body(*row) for row in stored],
        dict(clocks),
        corrections_from(corrections),
    )
