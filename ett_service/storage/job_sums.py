"""What single jobs contribute to a window: the largest of them, and the sums of these."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Row,
    Select,
    and_,
    case,
    cast,
    func,
    literal,
    select,
    tuple_,
)

from ett_service.core.totals import GPU_MEASURES, PLAIN, WEIGHTED, Totals
from ett_service.core.vocabulary import Category
from ett_service.storage.marks import JobKey
from ett_service.storage.rollups import CohortFilter, Span, conditions, exact_sum, whole
from ett_service.storage.tables import cohort, contribution, job_ledger, project

SUMS: tuple[str, ...] = (
    *PLAIN.categories.values(),
    *WEIGHTED.categories.values(),
    "restart_wait_gpu_us",
    "unsaved_us",
    "failures",
    "attempts",
)
"""What :func:`of_jobs` sums."""

Rate = tuple[str, int, float]
"""Of hardware, from an instant on: what one microsecond of one accelerator counts for."""


_in_cohort = and_(
    contribution.c.project_id == cohort.c.project_id, contribution.c.cohort_id == cohort.c.id
)


def largest_by_time(
    conn: Connection,
    wanted: CohortFilter,
    window: Span,
    categories: Collection[Category],
    limit: int,
) -> list[JobKey]:
    """Return the jobs with most weighted time in *categories*, the largest first."""
    weighted: ColumnElement[Any] = sum(
        (contribution.c[WEIGHTED.categories[one]] for one in categories), literal(0)
    )
    return _largest(conn, wanted, window, cast(weighted, Float), limit)


def largest_by_rate(
    conn: Connection, wanted: CohortFilter, window: Span, rates: Sequence[Rate], limit: int
) -> list[JobKey]:
    """Return the jobs whose held accelerators count for most, by the latest rate of each."""
    gpu: ColumnElement[Any] = sum((contribution.c[name] for name in GPU_MEASURES), literal(0))
    begun = [
        (and_(cohort.c.hardware == hardware, contribution.c.hour_us >= from_us), literal(rate))
        for hardware, from_us, rate in sorted(rates, key=lambda one: -one[1])
    ]
    if not begun:
        return []
    return _largest(conn, wanted, window, cast(gpu, Float) * case(*begun, else_=0.0), limit)


def of_jobs(
    conn: Connection,
    wanted: CohortFilter,
    window: Span,
    keys: Iterable[JobKey],
    cuts: Sequence[int] = (),
) -> dict[JobKey, dict[tuple[str, str, int], Totals]]:
    """Sum ``SUMS`` of jobs over a window, by hardware, precision and how many cuts have passed."""
    passed: ColumnElement[Any] = sum(
        (case((contribution.c.hour_us >= cut, 1), else_=0) for cut in cuts), literal(0)
    )
    by = [
        contribution.c.project_id,
        contribution.c.job,
        cohort.c.hardware,
        cohort.c.precision,
        passed.label("passed"),
    ]
    sums = [column for name in SUMS for column in exact_sum(conn, contribution.c[name])]
    statement = _of(wanted, window, [*by, *sums]).where(
        tuple_(contribution.c.project_id, contribution.c.job).in_([tuple(key) for key in keys])
    )
    found: defaultdict[JobKey, dict[tuple[str, str, int], Totals]] = defaultdict(dict)
    for row in conn.execute(statement.group_by(*by[:-1], "passed")):
        project_id, job, hardware, precision, place, *columns = row
        width = len(columns) // len(SUMS)
        amounts = (whole(columns[at * width : (at + 1) * width]) for at in range(len(SUMS)))
        nonzero = {name: amount for name, amount in zip(SUMS, amounts, strict=True) if amount}
        found[JobKey(project_id, job)][hardware, precision, place] = Totals(nonzero)
    return found


def facts(conn: Connection, keys: Iterable[JobKey]) -> Mapping[JobKey, Row[*tuple[Any, ...]]]:
    """Read what jobs say of themselves, and their projects' names."""
    names = ("project_id", "job", "state", "name", "team", "model", "cluster", "hardware", "gpus")
    statement = (
        select(*(job_ledger.c[name] for name in names), project.c.name.label("project"))
        .join_from(job_ledger, project, project.c.id == job_ledger.c.project_id)
        .where(tuple_(job_ledger.c.project_id, job_ledger.c.job).in_([tuple(key) for key in keys]))
    )
    return {JobKey(row.project_id, row.job): row for row in conn.execute(statement)}


def hardware_names(conn: Connection) -> list[str]:
    """Return every kind of accelerator that any cohort has."""
    return list(conn.scalars(select(cohort.c.hardware).distinct()))


def _largest(
    conn: Connection,
    wanted: CohortFilter,
    window: Span,
    amount: ColumnElement[float],
    limit: int,
) -> list[JobKey]:
    key = (contribution.c.project_id, contribution.c.job)
    size = func.sum(amount)
    statement = (
        _of(wanted, window, key)
        .group_by(*key)
        .having(size > 0)
        .order_by(size.desc(), *key)
        .limit(limit)
    )
    return [JobKey(*row) for row in conn.execute(statement)]


def _of(wanted: CohortFilter, window: Span, columns: Iterable[ColumnElement[Any]]) -> Select[Any]:
    return (
        select(*columns)
        .join_from(contribution, cohort, _in_cohort)
        .join(project, project.c.id == cohort.c.project_id)
        .where(
            contribution.c.hour_us >= window[0],
            contribution.c.hour_us < window[1],
            *conditions(wanted),
        )
    )
