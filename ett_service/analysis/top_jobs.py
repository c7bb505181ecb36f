"""The jobs in which most accelerators' time was lost, spent on a category, or paid for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from sqlalchemy import Connection

from ett_service.analysis.economy import Cost, Economy, Part
from ett_service.analysis.question import BadQuestion
from ett_service.analysis.scope import Scope
from ett_service.analysis.window import Window
from ett_service.core.interval import HOUR_US
from ett_service.core.totals import Totals
from ett_service.core.vocabulary import Category
from ett_service.storage import job_sums
from ett_service.storage.marks import JobKey

LOST, COST, CATEGORY = "lost", "cost", "category:"


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
    found = job_sums.of_jobs(conn, scope.cohorts, window, keys, cuts)
    chosen = []
    for key in keys:
        parts = [
            Part(hardware, precision, begins[passed], totals)
            for (hardware, precision, passed), totals in found[key].items()
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
        return job_sums.largest_by_rate(conn, scope.cohorts, window, rates, limit)
    return job_sums.largest_by_time(conn, scope.cohorts, window, _categories(by), limit)


def _categories(by: str) -> Sequence[Category]:
    if by == LOST:
        return [one for one in Category if one is not Category.EFFECTIVE_TRAINING]
    named = [one for one in Category if by == f"{CATEGORY}{one}"]
    if not named:
        raise BadQuestion(
            "by", "unknown_measure", (LOST, COST, *(f"{CATEGORY}{c}" for c in Category))
        )
    return named
