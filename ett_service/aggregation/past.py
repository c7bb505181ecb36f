"""Jobs folded anew from their events, for what nothing is stored of. Nothing is written."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection

from ett_service.aggregation.recompute import chunks
from ett_service.aggregation.refold import Chunk
from ett_service.core.ledger.failures import corrected
from ett_service.core.ledger.fold import JobFold
from ett_service.core.ledger.results import DEFAULT_LIMITS, Exclusion, JobLedger, Limits
from ett_service.storage.engine.store import Readable
from ett_service.storage.jobs import batches
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobKey


class Told(NamedTuple):
    """What a job's events and corrections say."""

    ledger: JobLedger
    exclusions: tuple[Exclusion, ...]


def told(
    store: Readable, now_us: int, limits: Limits = DEFAULT_LIMITS, *, only_history: bool
) -> Iterator[Told]:
    """Fold job by job as of *now_us*, in microseconds; some of them are in memory at a time.

    With *only_history* those that a batch of ``history`` ever touched, which move no counter.
    """
    for chunk, _ in chunks(store):
        with store.reading() as conn:
            jobs = chunk.jobs
            if only_history:
                wanted = batches.of_history(conn, *chunk)
                jobs = [job for job in jobs if job in wanted]
            if jobs:
                yield from _folded(conn, Chunk(chunk.project_id, jobs), now_us, limits)


def _folded(conn: Connection, chunk: Chunk, now_us: int, limits: Limits) -> Iterator[Told]:
    clocks = batches.clock_corrections(conn, *chunk)
    stand = {
        job: corrections.of_job(conn, JobKey(chunk.project_id, job))
        for job in batches.corrected(conn, *chunk)
    }
    for job, events in batches.events(conn, *chunk):
        fold = JobFold(limits)
        fold.add(events, clocks.get(job, {}))
        ledger, known = fold.ledger(now_us), stand.get(job)
        if known is None:
            yield Told(ledger, ())
        else:
            yield Told(corrected(ledger, known.verdicts), known.exclusions)
