"""Some jobs of a project folded anew: what is stored of them against what their events say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection

from ett_service.aggregation.job import OPEN_EVERY_US, due_us
from ett_service.core.fleet.contribution import contribution
from ett_service.core.ledger.failures import corrected
from ett_service.core.ledger.fold import JobFold
from ett_service.core.ledger.results import DEFAULT_LIMITS, FORMULA_VERSION, Limits
from ett_service.storage.fleet import contributions as stored_contributions
from ett_service.storage.fleet.contributions import ContributionChanges, Ids
from ett_service.storage.jobs import batches
from ett_service.storage.jobs.batches import Changes
from ett_service.storage.jobs.ledger_rows import Head, rows
from ett_service.storage.metrics import counter_samples
from ett_service.storage.record import corrections
from ett_service.storage.record.corrections import Corrections
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import (
    attempt_ledger,
    checkpoint,
    job_ledger,
    recovery,
    segment,
    share,
    stage_time,
)
from ett_service.storage.schema import contribution as contributed

_NONE = Corrections({}, ())
_LEDGER = (job_ledger, attempt_ledger, segment, share, recovery, stage_time, checkpoint)


class Chunk(NamedTuple):
    """Jobs of one project."""

    project_id: int
    jobs: Sequence[str]


@dataclass(slots=True)
class Refolded:
    """What has to be written so that what is stored is what the events say."""

    chunk: Chunk
    ledgers: Changes = field(default_factory=Changes)
    contributions: ContributionChanges = field(default_factory=ContributionChanges)
    sayings: list[tuple[JobKey, counter_samples.CounterSample]] = field(default_factory=list)

    def write(self, conn: Connection, known: Ids) -> None:
        """Write it; *known* are the project's cohorts, and learns of new ones."""
        self.ledgers.write(conn)
        self.contributions.write(conn, self.chunk.project_id, known)
        counter_samples.put(conn, self.sayings)


@dataclass(frozen=True, slots=True)
class _Read:
    """What is stored of the jobs, by job."""

    heads: Mapping[str, Head]
    clocks: Mapping[str, Mapping[str, int]]
    corrections: Mapping[str, Corrections]


def refold(
    conn: Connection, chunk: Chunk, known: Ids, now_us: int, limits: Limits = DEFAULT_LIMITS
) -> Refolded:
    """Fold every event of the jobs as of *now_us*, in microseconds, and compare.

    *known* are the cohorts of the project as far as this process knows them; it learns those
    that are stored. Nothing is written. Other writers have to be kept out, by a lock on the jobs
    or on the store, and the jobs' marks are to be taken before.
    """
    read = _read(conn, chunk)
    found = Refolded(chunk)
    stored = _Stored(conn, chunk)
    known |= stored.cohorts(conn, chunk.project_id, known)
    said = counter_samples.stored(conn, *chunk)
    for job, events in batches.events(conn, *chunk):
        fold = JobFold(limits)
        fold.add(events, read.clocks.get(job, {}))
        stands = read.corrections.get(job, _NONE)
        ledger = corrected(fold.ledger(now_us), stands.verdicts)
        before = read.heads.get(job)
        head = Head(
            revision=1 + (before.revision if before else 0),
            formula_version=FORMULA_VERSION,
            event_count=fold.event_count,
            folded_us=now_us,
            due_us=due_us(ledger, OPEN_EVERY_US),
        )
        for table, columns in rows(ledger, head).items():
            after = batches.in_order(table, chunk.project_id, job, columns)
            found.ledgers.compare(table, stored.of(table.name, job), after)
        cells = contribution(ledger, stands.exclusions)
        found.contributions.compare(job, stored.of(contributed.name, job), cells, known)
        key = JobKey(chunk.project_id, job)
        saying = counter_samples.counter_sample(key, ledger, stands.exclusions)
        if said.get(job) != saying:
            found.sayings.append((key, saying))
    return found


def _read(conn: Connection, chunk: Chunk) -> _Read:
    return _Read(
        heads=batches.heads(conn, *chunk),
        clocks=batches.clock_corrections(conn, *chunk),
        corrections={
            job: corrections.of_job(conn, JobKey(chunk.project_id, job))
            for job in batches.corrected(conn, *chunk)
        },
    )


class _Stored:
    """The rows that are stored of the jobs."""

    def __init__(self, conn: Connection, chunk: Chunk) -> None:
        self._rows: dict[tuple[str, str], list[batches.Values]] = {}
        for table in (*_LEDGER, contributed):
            for row in batches.stored(conn, table, *chunk):
                self._rows.setdefault((table.name, row[1]), []).append(row)

    def of(self, table: str, job: str) -> Sequence[batches.Values]:
        """Return a job's rows in a table."""
        return self._rows.get((table, job), ())

    def cohorts(self, conn: Connection, project_id: int, known: Ids) -> Ids:
        """Read the project's cohorts if a row refers to one that is not known."""
        ids = set(known.values())
        named = {
            row[3]
            for (table, _), rows_of_it in self._rows.items()
            if table == contributed.name
            for row in rows_of_it
        }
        return {} if named <= ids else stored_contributions.known_ids(conn, project_id)
