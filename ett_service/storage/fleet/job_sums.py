"""What single jobs contribute to a window: their sums and weights."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    case,
    cast,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
)

from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.fleet.measures import MEASURES, PLAIN, WEIGHTED, Names
from ett_service.core.fleet.totals import Tally, Totals
from ett_service.core.words import Category
from ett_service.storage.engine.statements import Summed, Summing, summed_rows
from ett_service.storage.fleet.contributions import decoded
from ett_service.storage.fleet.rollups import (
    STATEMENTS,
    CohortFilter,
    Span,
    contributed,
    in_wanted_cohorts,
    label,
    start_of,
    within,
)
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import cohort, contribution, job_ledger, project

SUMS: tuple[str, ...] = (
    *PLAIN.categories.values(),
    *WEIGHTED.categories.values(),
    "restart_wait_gpu_us",
    "unsaved_us",
    "failures",
    "attempts",
)
"""What :func:`of_jobs` sums."""

KEY = (contribution.c.project_id, contribution.c.job)


def by_job(
    columns: Iterable[ColumnElement[Any]], cohort_filter: CohortFilter, window: Span
) -> Select[Any]:
    """Select sums of each job over a window, reading the contributions of the window alone.

    To have them in the order of the groups SQLite would read those of all time by the primary key:
    grouped by an expression, it finds them by cohort and hour.
    """
    statement = in_wanted_cohorts(columns, cohort_filter, window)
    return statement.group_by(contribution.c.project_id + literal_column("0"), *KEY)


def number_with_time(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    categories: Collection[Category],
) -> int:
    """Count the jobs with time in *categories*."""
    jobs = by_job(KEY, cohort_filter, window)
    with_time = jobs.having(func.sum(time_in(categories, PLAIN)) > 0).subquery()
    return int(conn.scalar(select(func.count()).select_from(with_time)) or 0)


def groups_of(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    keys: Iterable[JobKey],
    group_by: Sequence[str],
    categories: Collection[Category],
) -> dict[JobKey, tuple[str, ...]]:
    """Return the labels of each job; of several, those of most time in *categories*."""
    labels = [label(name) for name in group_by]
    size = cast(func.sum(time_in(categories, PLAIN)), Float)
    statement = (
        contributed([*KEY, *labels], cohort_filter, window)
        .where(is_among(contribution, keys))
        .group_by(*KEY, *labels)
        .order_by(size, *labels)
    )
    return {
        JobKey(project_id, job): tuple(values)
        for project_id, job, *values in conn.execute(statement)
    }


def time_in(categories: Collection[Category], names: Names) -> ColumnElement[Any]:
    """Return the time in *categories* of a contribution."""
    return sum((contribution.c[names.categories[category]] for category in categories), literal(0))


def of_jobs(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    keys: Iterable[JobKey],
    cuts: Sequence[int] = (),
) -> dict[JobKey, dict[tuple[str, str, int], Totals]]:
    """Sum ``SUMS`` of jobs over a window, by hardware, precision and how many cuts have passed."""
    jobs: defaultdict[int, list[str]] = defaultdict(list)
    for key in keys:
        jobs[key.project_id].append(key.job)
    instants = {"from_us": window[0], "to_us": window[1]}
    instants |= {f"cut_{place}": cut for place, cut in enumerate(cuts)}
    made = partial(_of_jobs, cohort_filter, tuple(jobs), len(cuts))
    rows, sums = summed_rows(
        conn, made, {**instants, **{f"jobs_{owner}": names for owner, names in jobs.items()}}
    )
    by_job: defaultdict[JobKey, dict[tuple[str, str, int], Totals]] = defaultdict(dict)
    for project_id, job, hardware, precision, place, *columns in rows:
        machine = (hardware, precision, place)
        by_job[JobKey(project_id, job)][machine] = Totals(sums.read(columns))
    return by_job


@lru_cache(STATEMENTS)
def _of_jobs(
    cohort_filter: CohortFilter, project_ids: tuple[int, ...], cuts: int, summing: Summing
) -> Summed:
    passed: ColumnElement[Any] = sum(
        (
            case((contribution.c.hour_us >= bindparam(f"cut_{place}"), 1), else_=0)
            for place in range(cuts)
        ),
        literal(0),
    )
    of_keys = (
        and_(
            contribution.c.project_id == owner,
            contribution.c.job.in_(bindparam(f"jobs_{owner}", expanding=True)),
        )
        for owner in project_ids
    )
    by = (*KEY, cohort.c.hardware, cohort.c.precision)
    sums = summing({name: contribution.c[name] for name in SUMS})
    selected = contributed([*by, passed.label("passed"), *sums.columns], cohort_filter).where(
        contribution.c.hour_us >= bindparam("from_us"),
        contribution.c.hour_us < bindparam("to_us"),
        or_(false(), *of_keys),
    )
    return selected.group_by(*by, "passed"), sums


def facts(conn: Connection, keys: Iterable[JobKey]) -> Mapping[JobKey, Row[*tuple[Any, ...]]]:
    """Read what jobs say of themselves, and their projects' names."""
    names = ("project_id", "job", "state", "name", *JOB_DIMENSIONS, "gpus")
    statement = (
        select(*(job_ledger.c[name] for name in names), project.c.name.label("project"))
        .join_from(job_ledger, project, project.c.id == job_ledger.c.project_id)
        .where(is_among(job_ledger, keys))
    )
    return {JobKey(row.project_id, row.job): row for row in conn.execute(statement)}


def is_among(table: Table, keys: Iterable[JobKey]) -> ColumnElement[bool]:
    """Whether a row is of one of these jobs; SQLite finds no pairs by the key of a table."""
    jobs_of: defaultdict[int, list[str]] = defaultdict(list)
    for key in keys:
        jobs_of[key.project_id].append(key.job)
    return or_(
        false(),
        *(
            and_(table.c.project_id == project_id, table.c.job.in_(jobs))
            for project_id, jobs in jobs_of.items()
        ),
    )


def hardware_names(conn: Connection) -> list[str]:
    """Return every kind of accelerator that any cohort has."""
    return list(conn.scalars(select(cohort.c.hardware).distinct()))


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

    def made(summing: Summing) -> Summed:
        sums = summing({name: contribution.c[name] for name in measures})
        statement = (
            select(*keys, *sums.columns)
            .join_from(contribution, cohort, contribution.c.cohort_id == cohort.c.id)
            .where(contribution.c.project_id == project_id, contribution.c.job == job)
            .group_by(*(["start"] if step_us is not None else []), *keys[1:])
        )
        return statement, sums

    rows, sums = summed_rows(conn, made)
    return {
        (start_us, (hardware, precision)): Totals(sums.read(columns))
        for start_us, hardware, precision, *columns in rows
    }


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


class JobWeight(NamedTuple):
    """What a job spent in each of two windows, in microseconds, weighted or not."""

    project: str
    job: str
    base_us: int
    current_us: int


def heaviest(
    conn: Connection,
    cohort_filter: CohortFilter,
    group: Mapping[str, str],
    windows: tuple[Span, Span],
    measures: Collection[str],
    most: int,
) -> list[JobWeight]:
    """Return up to *most* jobs of the *group*, those with the most of *measures* in a window first.

    *group* gives labels their values. Sums are floats, exact below 2^53: they rank and are read.
    """
    amount = cast(sum((contribution.c[name] for name in measures), start=0), Float)
    base, current = (func.sum(case((within(window), amount), else_=0.0)) for window in windows)
    larger = case((base < current, current), else_=base)
    statement = (
        contributed([project.c.name, contribution.c.job, base, current], cohort_filter)
        .where(
            or_(*(within(window) for window in windows)),
            *(label(name) == value for name, value in group.items()),
        )
        .group_by(project.c.name, contribution.c.job)
        .having(larger > 0)
        .order_by(larger.desc(), project.c.name, contribution.c.job)
        .limit(most)
    )
    return [
        JobWeight(owner, job, round(base_us), round(current_us))
        for owner, job, base_us, current_us in conn.execute(statement)
    ]
