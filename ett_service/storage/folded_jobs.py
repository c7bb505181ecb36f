"""What has to be written so that folded jobs are stored, of one job or of many of a project.

Jobs are first compared, each with what is stored of it; then the differences of all are written
in a few statements.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Table

from ett_service.core.fleet.contribution import Cells
from ett_service.core.ledger.results import JobLedger, Segment
from ett_service.storage.engine.statements import Values
from ett_service.storage.fleet.contributions import CohortIds, ContributionChanges, ExistingCells
from ett_service.storage.jobs import batches
from ett_service.storage.jobs.batches import RowChanges, RowsOf
from ett_service.storage.jobs.ledgers import PARTS, SEGMENTS, Head, ledger_columns, rows
from ett_service.storage.metrics import counters
from ett_service.storage.metrics.counters import CounterSample
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import job_ledger

T = TypeVar("T")

LEDGER_TABLES = (job_ledger, *(part.table for part in PARTS))

_columns = [column.name for column in job_ledger.columns]
_head = itemgetter(*(_columns.index(each.name) for each in fields(Head)))


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
            put, gone = batches.differences(before[alike:], after[alike:], part.key)
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
            wanted = [(*key, *row.values()) for row in columns]
            changes.compare(table, self.of(table, key.job), wanted)

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

    def write(self, conn: Connection, ids: CohortIds) -> None:
        """Write them; *ids* are those of the project's cohorts, and learn of new ones."""
        self.ledgers.write(conn)
        self.contributions.write(conn, self.project_id, ids)
        counters.put(conn, self.samples)


def _common_start(before: Sequence[T], after: Sequence[T]) -> int:
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and old != new:
            return place
    return min(len(before), len(after))
