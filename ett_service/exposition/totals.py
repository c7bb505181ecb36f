"""The statements behind the page of metrics. SQL sums microseconds and counts, and stops there.

Jobs that a batch of history touched move no counter: a year of imported past in one scrape would
read as a year that passed in a minute.
"""

from sqlalchemy import ColumnElement, Float, Table, and_, case, cast, exists, func, select

from ett_service.core.vocabulary import FAILURES, Outcome
from ett_service.storage.tables import (
    attempt_ledger,
    job_history,
    job_ledger,
    recovery,
    share,
)

BUCKETS_S = (
    1, 2, 5, 10, 20, 30, 60, 90, 120, 180, 300, 450, 600, 900, 1200, 1800, 2700, 3600, 5400,
    7200, 14400,
)  # fmt: skip
"""Upper bounds in seconds of the histograms of times to start and to recover."""

_COHORT = (job_ledger.c.cluster, job_ledger.c.model)
_FAILED = sorted(FAILURES)

_LIVE = ~exists().where(
    job_history.c.project_id == job_ledger.c.project_id, job_history.c.job == job_ledger.c.job
)


def _joined(table: Table) -> ColumnElement[bool]:
    return and_(table.c.project_id == job_ledger.c.project_id, table.c.job == job_ledger.c.job)


def _histogram(us: ColumnElement[int]) -> list[ColumnElement[int]]:
    below = [func.sum(case((us <= bound * 1_000_000, 1), else_=0)) for bound in BUCKETS_S]
    return [*below, func.count(), func.sum(us)]


PHASES = (
    select(
        *_COHORT,
        share.c.phase,
        share.c.category,
        func.coalesce(func.sum(share.c.us), 0).label("us"),
        # Only ranks the cohorts; as an integer the sum over a fleet could pass 64 bits.
        func.coalesce(func.sum(cast(share.c.gpu_us, Float)), 0.0).label("weight"),
    )
    .outerjoin(share, _joined(share))
    .where(_LIVE)
    .group_by(*_COHORT, share.c.phase, share.c.category)
)
"""Microseconds by who reported them and what they turned out to be, and accelerators' time.

A cohort that spent no time yet has one row without a phase.
"""

RUNNING = (
    select(*_COHORT, attempt_ledger.c.answer)
    .join(attempt_ledger, _joined(attempt_ledger))
    .where(_LIVE, attempt_ledger.c.outcome == Outcome.RUNNING)
)
"""The attempts that run, each with its answer."""

FAILED = (
    select(
        job_ledger.c.cluster,
        attempt_ledger.c.origin,
        attempt_ledger.c.cause,
        func.count().label("failures"),
    )
    .join(attempt_ledger, _joined(attempt_ledger))
    .where(_LIVE, attempt_ledger.c.outcome.in_(_FAILED))
    .group_by(job_ledger.c.cluster, attempt_ledger.c.origin, attempt_ledger.c.cause)
)
"""Attempts that failed, by whose fault and why."""

STARTS = (
    select(*_COHORT, *_histogram(job_ledger.c.time_to_start_us))
    .where(_LIVE, job_ledger.c.time_to_start_us.is_not(None))
    .group_by(*_COHORT)
)
"""Cumulative bucket counts, count and sum of the times to start."""

RECOVERIES = (
    select(*_COHORT, *_histogram(recovery.c.us))
    .join(recovery, _joined(recovery))
    .where(_LIVE, recovery.c.resumed.is_not(None), recovery.c.outcome.in_(_FAILED))
    .group_by(*_COHORT)
)
"""The same of the recoveries that resumed after a failure."""
