"""What a fold reads of a job and writes of it: all that it has to know, in one round trip each way.

On PostgreSQL a job is read in one trip. SQLite, which is no trip away and has one writer, is asked
one thing after the other. To write, each job is first compared with what is stored of it; then the
differences of one job, or of many of a project, are written in a few statements.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from sqlalchemy import (
    Connection,
    Select,
    Table,
    Text,
    and_,
    any_,
    bindparam,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY

from ett_service.core.fleet.contribution import Cells
from ett_service.core.ledger.results import JobLedger, Segment
from ett_service.storage.engine import statements
from ett_service.storage.engine.driver import begin_and_read, read_and_end, read_together
from ett_service.storage.engine.statements import Values
from ett_service.storage.fleet.contributions import CohortIds, ContributionChanges, ExistingCells
from ett_service.storage.jobs import ledgers
from ett_service.storage.jobs.ledgers import HEAD, PARTS, SEGMENTS, Head, ledger_columns, rows
from ett_service.storage.metrics import counters
from ett_service.storage.metrics.counters import CounterSample
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import (
    CLAIM,
    CLAIM_THESE,
    MARKS,
    UNPRUNED,
    JobBatch,
    JobKey,
    Marks,
    marks_from,
    of_jobs,
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
from ett_service.storage.schema import dirty, event, job_ledger, metadata

_Rows = Sequence[tuple[Any, ...]]

#: By batch, those that marks name; a batch without events of the job, too.
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
    .where(dirty.c.project_id == bindparam("project_id"), dirty.c.job == bindparam("job"))
)

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

#: In the order of their foreign keys, which takes a tenth of a fold to find.
_TABLES = tuple(metadata.sorted_tables)

LEDGER_TABLES = (job_ledger, *(part.table for part in PARTS))

_columns = [column.name for column in job_ledger.columns]
_head = itemgetter(*(_columns.index(each.name) for each in fields(Head)))


RowsOf: TypeAlias = Mapping[tuple[str, str], Sequence[Values]]
"""By the name of the table and the job."""


class JobToFold(NamedTuple):
    """A job as it was read to be folded; what comes later in this list may know more."""

    born_us: int  #: when its first event came; tells it from a deleted one of its name
    head: Head | None  #: of the ledger that is stored
    marks: Marks
    record: JobRecord  #: with all events, or with those that the marks stand for


def look_at(conn: Connection, key: JobKey, *, whole: bool) -> JobToFold | None:
    """Read a job, *whole* or what its marks stand for, and lock nothing.

    None if it was deleted or pruned. What a mark stands for was there before it, so a mark that
    is read before the events vouches for them.
    """
    of_events = EVENTS if whole else _MARKED_EVENTS
    born, head, marks, found, clocks, corrections = read_and_end(
        conn,
        [
            (statement, _parameters(key))
            for statement in (UNPRUNED, HEAD, MARKS, of_events, CLOCKS, STANDING_CORRECTIONS)
        ],
    )
    if not born:
        return None
    record = _record(key, found if whole else _of_marks(found), clocks, corrections)
    return JobToFold(born[0][0], _read_head(head), marks_from(marks), record)


def claim(conn: Connection, key: JobKey, *, whole: bool) -> JobToFold | None:
    """Lock a job until the transaction ends, delete its marks, and read as :func:`look_at` does.

    None, and nothing has changed, if another worker holds it, or if it was deleted or pruned.
    """
    if conn.dialect.name == "sqlite" or whole:
        return _claim(conn, key, whole=whole)
    statements = (_MARKED_EVENTS, CLAIM, HEAD, CLOCKS, STANDING_CORRECTIONS)
    marked, claimed, head, clocks, corrections = begin_and_read(
        conn, [(each, _parameters(key)) for each in statements]
    )
    if not claimed:
        return None
    marks = marks_from((batch, us) for _, batch, us in claimed if batch is not None)
    record = _record(key, _of_marks(marked), clocks, corrections)
    # What was marked between the two statements.
    if later := set(marks.batches) - {batch for batch, *_ in marked}:
        record = record._replace(events=[*record.events, *events(conn, *key, later)])
    return JobToFold(claimed[0][0], _read_head(head), marks, record)


def _claim(conn: Connection, key: JobKey, *, whole: bool) -> JobToFold | None:
    born_us = dirty_marks.lock(conn, key)
    if born_us is None:
        return None
    marks = dirty_marks.take(conn, key)
    head = ledgers.head(conn, key)
    record = job_record(conn, key, None if whole else marks.batches)
    return JobToFold(born_us, head, marks, record)


def claim_as_read(conn: Connection, key: JobKey, job: JobToFold) -> bool:
    """Lock a job until the transaction ends, and delete those of its marks that were read.

    False if another worker holds it, or if it is not as it was read: then the caller must not
    commit.
    """
    batches = list(job.marks.batches)
    if conn.dialect.name == "sqlite":
        born_us, stored = dirty_marks.lock(conn, key), ledgers.head(conn, key)
        dirty_marks.take_these(conn, key, batches)
    else:
        of_job = {**_parameters(key), "batches": batches}
        claimed, head = begin_and_read(conn, [(CLAIM_THESE, of_job), (HEAD, of_job)])
        born_us, stored = claimed[0][0] if claimed else None, _read_head(head)
    return (born_us, stored) == (job.born_us, job.head)


def _of_marks(rows: _Rows) -> Iterator[Sequence[Any]]:
    return (row for _, *row in rows if row[0] is not None)


def _parameters(key: JobKey) -> dict[str, object]:
    return {**key._asdict(), **job_parameters(key)}


def _read_head(rows: _Rows) -> Head | None:
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


@dataclass(slots=True)
class RowChanges:
    """What is to be written, by the name of its table."""

    gone: defaultdict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))
    put: defaultdict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))
    new: defaultdict[str, list[Values]] = field(default_factory=lambda: defaultdict(list))
    """Rows of whose primary keys there are none."""

    def compare(
        self, table: Table, existing: Sequence[Values], recomputed: Sequence[Values]
    ) -> None:
        """Gather what has to be written where *existing* rows are stored."""
        if not existing:
            self.new[table.name] += recomputed
            return
        length = _key_length(table)
        put, gone = differences(existing, recomputed, lambda row: row[:length])
        self.put[table.name] += put
        self.gone[table.name] += gone

    def write(self, conn: Connection) -> None:
        """Delete what is gone, then write the rest."""
        for table in _TABLES:
            if gone := self.gone.get(table.name):
                statements.delete(conn, table, gone)
            if put := self.put.get(table.name):
                statements.put(conn, table, _names(table), put)
            if new := self.new.get(table.name):
                statements.insert(conn, table, _names(table), new)


def differences(
    existing: Iterable[T], recomputed: Iterable[T], key: Callable[[T], K]
) -> tuple[list[T], Iterable[K]]:
    """Return what of *recomputed* does not exist as it is, and the keys of what has to go."""
    left = {key(item): item for item in existing}
    return [item for item in recomputed if left.pop(key(item), None) != item], left.keys()


def existing_rows(conn: Connection, tables: Iterable[Table], batch: JobBatch) -> RowsOf:
    """Read all rows of these jobs."""
    read = [(table, _of_jobs(table, conn.dialect.name)) for table in tables]
    answers = read_together(conn, [(each, batch.parameters()) for _, each in read])
    rows: defaultdict[tuple[str, str], list[Values]] = defaultdict(list)
    for (table, _), answer in zip(read, answers, strict=True):
        for row in answer:
            rows[table.name, row[1]].append(row)
    return rows


@cache
def _of_jobs(table: Table, dialect: str) -> Select[Any]:
    if dialect == "sqlite":
        return select(table).where(*of_jobs(table))
    jobs = bindparam("jobs", type_=ARRAY(Text))
    return select(table).where(
        table.c.project_id == bindparam("project_id"), table.c.job == any_(jobs)
    )


@cache
def _key_length(table: Table) -> int:
    """Return how many columns the primary key has, which the others follow."""
    names = [column.name for column in table.primary_key]
    assert names == [column.name for column in table.columns][: len(names)], table.name
    return len(names)


@cache
def _names(table: Table) -> tuple[str, ...]:
    """Return the columns behind the primary key."""
    return tuple(column.name for column in list(table.columns)[_key_length(table) :])


class StoredLedger(Protocol):
    """What is stored of a job's ledger."""

    def compare(self, changes: RowChanges, key: JobKey, ledger: JobLedger, head: Head) -> None:
        """Gather what has to be written so that *ledger* and *head* stand instead."""


@dataclass(frozen=True, slots=True)
class PreviousLedger:
    """The ledger that is stored, as a fold that goes on knows it: no row of it is read."""

    ledger: JobLedger
    changed_from: int | None  #: segments that start before it are taken to be alike, unseen

    def compare(self, changes: RowChanges, key: JobKey, ledger: JobLedger, head: Head) -> None:
        """Gather the rows of what differs; what is the same object is alike."""
        changes.put[job_ledger.name].append((*key, *ledger_columns(ledger, head).values()))
        for part in PARTS:
            before, after = part.items(self.ledger), part.items(ledger)
            if part is SEGMENTS:
                before, after = self._tail(before), self._tail(after)
            alike = _common_start(before, after)
            put, gone = differences(before[alike:], after[alike:], part.key)
            changes.put[part.table.name] += [(*key, *part.columns(item).values()) for item in put]
            changes.gone[part.table.name] += [(*key, *place) for place in gone]

    def _tail(self, segments: Sequence[Segment]) -> Sequence[Segment]:
        since = self.changed_from
        return segments if since is None else segments[bisect_left(segments, (since,)) :]


@dataclass(frozen=True, slots=True)
class LedgerRows:
    """The rows of a job's ledger, as they were read; none where nothing is stored."""

    stored: RowsOf = field(default_factory=dict)

    def compare(self, changes: RowChanges, key: JobKey, ledger: JobLedger, head: Head) -> None:
        """Gather the rows that differ."""
        for table, columns in rows(ledger, head).items():
            recomputed = [(*key, *row.values()) for row in columns]
            changes.compare(table, self.of(table, key.job), recomputed)

    def of(self, table: Table, job: str) -> Sequence[Values]:
        """Return a job's rows in a table."""
        return self.stored.get((table.name, job), ())

    def head(self, job: str) -> Head | None:
        """Return the head of a job's ledger; None if it has none yet."""
        for row in self.of(job_ledger, job):
            return Head(*_head(row))
        return None


@dataclass(slots=True)
class JobChanges:
    """The differences of jobs of one project, and how to write them."""

    project_id: int
    ledgers: RowChanges = field(default_factory=RowChanges)
    contributions: ContributionChanges = field(default_factory=ContributionChanges)
    samples: list[tuple[JobKey, CounterSample]] = field(default_factory=list)

    def compare_ledger(
        self, key: JobKey, ledger: JobLedger, head: Head, stored: StoredLedger
    ) -> None:
        """Gather the rows of a job's ledger that differ."""
        stored.compare(self.ledgers, key, ledger, head)

    def compare_cells(self, key: JobKey, cells: Cells, stored: ExistingCells) -> None:
        """Gather where a job adds something else to the fleet."""
        self.contributions.compare(key.job, stored, cells)

    def compare_sample(
        self, key: JobKey, sample: CounterSample, stored: CounterSample | None = None
    ) -> None:
        """Gather what a job says of the counters, if it says something else."""
        if sample != stored:
            self.samples.append((key, sample))

    def write(self, conn: Connection, ids: CohortIds, marked_us: int) -> None:
        """Write them; *ids* are those of the project's cohorts, and learn of new ones.

        The rollups follow once they are merged. *marked_us* is when the oldest of the facts came
        in that the ledgers did not know.
        """
        self.ledgers.write(conn)
        self.contributions.write(conn, self.project_id, ids, marked_us)
        counters.put(conn, self.samples)


def _common_start(before: Sequence[T], after: Sequence[T]) -> int:
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and old != new:
            return place
    return min(len(before), len(after))
