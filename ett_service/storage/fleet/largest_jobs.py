"""The largest jobs of a window: by time, by what they lost, by what they cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Select,
    and_,
    case,
    cast,
    func,
    literal,
    literal_column,
    select,
)

from ett_service.core.fleet.measures import WEIGHTED
from ett_service.core.fleet.totals import GPU_MEASURES
from ett_service.core.words import Category
from ett_service.storage.fleet.job_sums import KEY, by_job, is_among
from ett_service.storage.fleet.rollups import CohortFilter, Span, contributed, of_projects
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import cohort, contribution, job_ledger

_CANDIDATES = (4, 32)
"""Of so many times the wanted jobs the sums are read before those of all are."""

_BY_LOSS = ("lost_weighted_us", "project_id", "job")
_OF_LOSS = (*_BY_LOSS, "started_us", "ended_us")
"""The columns of an index."""

_MOST_RANKED = 5_000
"""So many of the jobs that lost most are looked at to find some that lived in a window."""

Rate = tuple[str, int, float]
"""Of hardware, from an instant on: what one microsecond of one accelerator counts for."""


def held_loss() -> ColumnElement[Any]:
    """Return the accelerator time that was held and not effective training."""
    effective = contribution.c[WEIGHTED.categories[Category.EFFECTIVE_TRAINING]]
    return _held() - effective


def _held() -> ColumnElement[Any]:
    return sum((contribution.c[name] for name in GPU_MEASURES), literal(0))


def largest(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    amount: ColumnElement[float],
    limit: int,
) -> list[JobKey]:
    """Return the jobs with most of an *amount*, the largest first; those with none never.

    Sums are floats, exact below 2^53.
    """
    jobs = by_job(KEY, cohort_filter, window)
    return [key for key, _ in _ranked(conn, jobs, amount, limit)]


def largest_losses(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    amount: ColumnElement[float],
    limit: int,
) -> list[JobKey]:
    """Return the answer of :func:`largest` for a part of what jobs lost, mostly from a few jobs.

    What a job loses in a window is at most what it loses in its life, by which an index orders all
    jobs. None behind the first few can be among the largest once each of the largest lost more in
    the window than those in all (the threshold algorithm of Fagin, Lotem and Naor, J. Comput.
    Syst. Sci. 66, 2003).
    """
    for most in (times * limit for times in _CANDIDATES):
        lives = _lost_most(conn, cohort_filter, window, most)
        if len(lives) < most:
            break
        sums = contributed(KEY, cohort_filter, window).where(is_among(contribution, lives))
        ranked = _ranked(conn, sums.group_by(*KEY), amount, limit)
        if len(ranked) == limit and _is_before_all_others(*ranked[-1], lives):
            return [key for key, _ in ranked]
    return largest(conn, cohort_filter, window, amount, limit)


def _lost_most(
    conn: Connection, cohort_filter: CohortFilter, window: Span, most: int
) -> dict[JobKey, int]:
    """Return what jobs of a window lost in their lives, the largest first."""
    ranked = (
        select(*(job_ledger.c[name] for name in _OF_LOSS))
        .where(job_ledger.c.lost_weighted_us > literal_column("0"))
        .order_by(*(job_ledger.c[name].desc() for name in _BY_LOSS))
        .limit(_MOST_RANKED)
        .subquery()
    )
    statement = (
        select(ranked.c.project_id, ranked.c.job, ranked.c.lost_weighted_us)
        .where(
            of_projects(ranked.c.project_id, cohort_filter),
            ranked.c.started_us < window[1],
            ranked.c.ended_us >= window[0],
        )
        .order_by(*(ranked.c[name].desc() for name in _BY_LOSS))
        .limit(most)
    )
    return {JobKey(*key): lost_us for *key, lost_us in conn.execute(statement)}


def _is_before_all_others(key: JobKey, lost_us: float, lives: Mapping[JobKey, int]) -> bool:
    """Whether a job that lost so much in a window stands before all that *lives* does not hold."""
    most_of_others_us = min(lives.values())
    return lost_us > most_of_others_us or lost_us == lives[key] == most_of_others_us


def largest_by_rate(
    conn: Connection, cohort_filter: CohortFilter, window: Span, rates: Sequence[Rate], limit: int
) -> list[JobKey]:
    """Return the jobs whose held accelerators count for most, by the latest rate of each."""
    begun = [
        (and_(cohort.c.hardware == hardware, contribution.c.hour_us >= from_us), literal(rate))
        for hardware, from_us, rate in sorted(rates, key=lambda rate: -rate[1])
    ]
    if not begun:
        return []
    cost = _held() * case(*begun, else_=0.0)
    return largest(conn, cohort_filter, window, cost, limit)


def _ranked(
    conn: Connection, by_job: Select[Any], amount: ColumnElement[float], limit: int
) -> list[tuple[JobKey, float]]:
    """Return the jobs with most of an amount and it; of equal ones those of later names first."""
    size = func.sum(cast(amount, Float))
    keys = (key.desc() for key in KEY)
    statement = by_job.add_columns(size).having(size > 0).order_by(size.desc(), *keys).limit(limit)
    return [(JobKey(*key), sum_) for *key, sum_ in conn.execute(statement)]
