"""Sums of what one job adds to the fleet, as a whole and by step."""

from collections import Counter
from collections.abc import Collection
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, literal, select

from ett_service.core.distribution import Tally
from ett_service.core.totals import MEASURES, Totals
from ett_service.storage.contributions import decoded
from ett_service.storage.rollups import exact_sum, start_of, whole
from ett_service.storage.tables import cohort, contribution

Machine: TypeAlias = tuple[str, str]
"""Hardware and precision; empty where unknown."""


def job_totals(
    conn: Connection,
    project_id: int,
    job: str,
    step_us: int | None = None,
    *,
    measures: Collection[str] = MEASURES,
) -> dict[tuple[int | None, Machine], Totals]:
    """Sum what a job adds, excluded time too, by machine and, with a step, by its start.

    A step is an hour, a day or a week in microseconds, as for the fleet. Distributions are left
    out; see :func:`job_tally`.
    """
    start: ColumnElement[Any] = literal(None)
    if step_us is not None:
        start = start_of(contribution.c.hour_us, step_us)
    keys = [start.label("start"), cohort.c.hardware, cohort.c.precision]
    columns = [column for name in measures for column in exact_sum(conn, contribution.c[name])]
    statement = (
        select(*keys, *columns)
        .join_from(contribution, cohort, contribution.c.cohort_id == cohort.c.id)
        .where(contribution.c.project_id == project_id, contribution.c.job == job)
        .group_by(*(["start"] if step_us is not None else []), *keys[1:])
    )
    width = len(columns) // len(measures) if measures else 0
    found = {}
    for start_us, hardware, precision, *amounts in conn.execute(statement):
        sums = {
            name: whole(amounts[place * width : (place + 1) * width])
            for place, name in enumerate(measures)
        }
        totals = Totals({name: amount for name, amount in sums.items() if amount})
        found[start_us, (hardware, precision)] = totals
    return found


def job_tally(conn: Connection, project_id: int, job: str, name: str) -> Tally:
    """Read one of a job's distributions, excluded time included."""
    statement = select(contribution.c.tallies).where(
        contribution.c.project_id == project_id, contribution.c.job == job
    )
    counts: Counter[int] = Counter()
    us = 0
    for text in conn.scalars(statement):
        for place, (count, length_us) in decoded(text).get(name, {}).items():
            counts[place] += count
            us += length_us
    return Tally(counts, us)
