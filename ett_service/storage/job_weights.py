"""The jobs that weigh most in a group of cohorts, from what each added to its hours."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Float, and_, case, cast, func, or_, select

from ett_service.storage.rollups import CohortFilter, Span, conditions, label
from ett_service.storage.tables import cohort, contribution, project


class JobWeight(NamedTuple):
    """What a job spent in each of two windows, in microseconds, weighted or not."""

    project: str
    job: str
    base_us: int
    current_us: int


def heaviest(
    conn: Connection,
    wanted: CohortFilter,
    group: Mapping[str, str],
    windows: tuple[Span, Span],
    measures: Collection[str],
    most: int,
) -> list[JobWeight]:
    """Return up to *most* jobs of the *group*, those with the most of *measures* in a window first.

    *group* gives labels their values. Sums are floats, exact below 2^53: they rank and are read.
    """
    amount = cast(sum((contribution.c[name] for name in measures), start=0), Float)
    base, current = (func.sum(case((_within(span), amount), else_=0.0)) for span in windows)
    larger = case((base < current, current), else_=base)
    statement = (
        select(project.c.name, contribution.c.job, base, current)
        .join_from(cohort, project, project.c.id == cohort.c.project_id)
        .join(
            contribution,
            and_(
                contribution.c.project_id == cohort.c.project_id,
                contribution.c.cohort_id == cohort.c.id,
            ),
        )
        .where(
            or_(*(_within(span) for span in windows)),
            *(label(name) == value for name, value in group.items()),
            *conditions(wanted),
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


def _within(span: Span) -> ColumnElement[bool]:
    return and_(contribution.c.hour_us >= span[0], contribution.c.hour_us < span[1])
