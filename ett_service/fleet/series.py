"""The fleet step by step, and its jobs with the largest losses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from sqlalchemy import Connection

from ett_service.core.fleet.measures import PLAIN, WEIGHTED
from ett_service.core.fleet.totals import GPU_MEASURES, Totals
from ett_service.core.intervals import HOUR_US
from ett_service.core.words import Category
from ett_service.fleet.economy import Cost, Economy, Part
from ett_service.fleet.scope import MOST_POINTS, BadQuestion, Scope, Window, bucket_starts
from ett_service.fleet.summary import Group, groups, together
from ett_service.storage.fleet import job_sums, largest_jobs, rollups
from ett_service.storage.record.dirty_marks import JobKey


@dataclass(frozen=True, slots=True)
class FleetStep:
    """A group in one step; of an outer step only what lies in the window counts."""

    start_us: int
    end_us: int
    partial: bool
    group: Group


_PIECE = 256
"""About so many points are summed together."""


def most_points(conn: Connection, scope: Scope, window: Window, step: int) -> int:
    """Count the points of a series; with groups some of them may be left out.

    Raises:
        BadQuestion: There are more than ``MOST_POINTS``.
    """
    starts = bucket_starts(window, step)
    if not scope.group_by:
        return len(starts)
    points = rollups.places(
        conn, scope.cohorts, window, (*scope.group_by, "other"), step, most=MOST_POINTS + 1
    )
    if points > MOST_POINTS:
        reason = f"There may be at most {MOST_POINTS} points."
        raise BadQuestion("group_by", "too_many_points", reason)
    return points


def series(
    conn: Connection,
    scope: Scope,
    window: Window,
    economy: Economy,
    step: int,
    *,
    points: int,
    distributions: bool = True,
) -> Iterator[Sequence[FleetStep]]:
    """Add up each step of a window piece by piece, in order of time and then of labels.

    Without groups there is a point for every step; with groups, for those that have any time.
    *points* are those that :func:`most_points` counted.
    """
    starts = bucket_starts(window, step)
    size = max(1, _PIECE * len(starts) // max(points, 1))
    nothing = together((), scope, economy)
    for first in range(0, len(starts), size):
        part = starts[first : first + size]
        piece = Window(max(part[0], window.from_us), min(part[-1] + step, window.to_us))
        by_place = groups(conn, scope, piece, economy, step=step, distributions=distributions)
        if not scope.group_by:
            by_place = {(start, ()): by_place.get((start, ()), nothing) for start in part}
        yield [
            FleetStep(start, start + step, _is_cut(start, step, window), group)
            for (start, _), group in sorted(by_place.items(), key=lambda item: item[0])
            if start is not None
        ]


_OF_A_TREND = tuple(
    dict.fromkeys(
        (*PLAIN.categories.values(), *WEIGHTED.categories.values(), *GPU_MEASURES, "failures")
    )
)


@dataclass(frozen=True, slots=True)
class TrendStep:
    """What ETT% was in a step, and of how much; of an outer step only what lies in the window."""

    start_us: int
    end_us: int
    partial: bool
    totals: Totals  #: time by category and failures alone

    @property
    def jobs(self) -> int:
        """How many jobs lived in the step."""
        return self.totals[rollups.JOBS]

    @property
    def failures(self) -> int:
        """How many attempts failed."""
        return self.totals["failures"]


def trend(conn: Connection, scope: Scope, window: Window, step: int) -> list[TrendStep]:
    """Return ETT% in each step of a window: a small part of :func:`series`, read sooner.

    Raises:
        BadQuestion: There are more than ``MOST_POINTS`` points.
    """
    starts = bucket_starts(window, step)
    by_place = rollups.totals(
        conn, scope.cohorts, window, step=step, measures=_OF_A_TREND, tallies=False
    )
    return [
        TrendStep(
            start_us=start,
            end_us=start + step,
            partial=_is_cut(start, step, window),
            totals=by_place.get((start, ()), Totals.ZERO),
        )
        for start in starts
    ]


def _is_cut(start_us: int, step: int, window: Window) -> bool:
    return start_us < window.from_us or start_us + step > window.to_us


LOST, LOST_GPU, COST, CATEGORY = "lost", "lost_gpu", "cost", "category:"
MEASURES_OF_JOBS = (LOST, LOST_GPU, COST, *(f"{CATEGORY}{category}" for category in Category))


@dataclass(frozen=True, slots=True)
class TopJob:
    """What a job contributed to a window."""

    facts: Any  #: a row of ``job_sums.facts``
    totals: Totals
    cost: Cost


def top_jobs(
    conn: Connection, scope: Scope, window: Window, economy: Economy, by: str, limit: int
) -> Sequence[TopJob]:
    """Return the jobs with most of what *by* names, the largest first; those with none never.

    Raises:
        BadQuestion: *by* is no such name.
    """
    keys = _largest(conn, scope, window, economy, by, limit)
    facts = job_sums.facts(conn, keys)
    cuts = economy.cuts(*window)
    begins = [window.from_us, *cuts]
    by_job = job_sums.of_jobs(conn, scope.cohorts, window, keys, cuts)
    chosen = []
    for key in keys:
        parts = [
            Part(hardware, precision, begins[passed], totals)
            for (hardware, precision, passed), totals in by_job[key].items()
        ]
        totals = reduce(add, (part.totals for part in parts), Totals.ZERO)
        chosen.append(TopJob(facts[key], totals, economy.cost(parts)))
    return chosen


def _largest(
    conn: Connection, scope: Scope, window: Window, economy: Economy, by: str, limit: int
) -> list[JobKey]:
    if by == COST:
        rates = [
            (hardware, from_us, float(price / HOUR_US))
            for hardware in job_sums.hardware_names(conn)
            for from_us in (window.from_us, *economy.cuts(*window))
            if (price := economy.price(hardware, from_us)) is not None
        ]
        return largest_jobs.largest_by_rate(conn, scope.cohorts, window, rates, limit)
    if by == LOST_GPU:
        lost = largest_jobs.held_loss()
        return largest_jobs.largest_losses(conn, scope.cohorts, window, lost, limit)
    categories = _categories(by)
    is_loss = Category.EFFECTIVE_TRAINING not in categories
    find = largest_jobs.largest_losses if is_loss else largest_jobs.largest
    return find(conn, scope.cohorts, window, job_sums.time_in(categories, WEIGHTED), limit)


def _categories(by: str) -> Sequence[Category]:
    if by == LOST:
        return [category for category in Category if category is not Category.EFFECTIVE_TRAINING]
    named = [category for category in Category if by == f"{CATEGORY}{category}"]
    if not named:
        raise BadQuestion("by", "unknown_measure", MEASURES_OF_JOBS)
    return named
