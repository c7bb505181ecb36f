"""How far checkpoints lie apart."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Subquery, and_, func, select

from ett_service.core.interval import HOUR_US
from ett_service.storage.rollups import CohortFilter, Group, Span, conditions, label, start_of
from ett_service.storage.tables import checkpoint, cohort, contribution, project

MOST_GAPS = 20_000


def cohort_gaps(
    conn: Connection,
    wanted: CohortFilter,
    window: Span,
    group_by: Sequence[str] = (),
    most: int = MOST_GAPS,
) -> Mapping[Group, list[int]]:
    """Read those of the checkpoints saved in *window*, the latest *most* of all, by group.

    A checkpoint belongs to the cohorts to which its job adds in its hour.
    """
    gaps = _gaps(wanted, window)
    labels = [label(name).label(f"key_{place}") for place, name in enumerate(group_by)]
    in_its_hour = and_(
        contribution.c.project_id == gaps.c.project_id,
        contribution.c.job == gaps.c.job,
        contribution.c.hour_us == start_of(gaps.c.saved_us, HOUR_US),
    )
    # Distinct, since a job may add to several cohorts of a group in an hour.
    statement = (
        select(gaps, *labels)
        .distinct()
        .join_from(gaps, contribution, in_its_hour)
        .join(cohort, contribution.c.cohort_id == cohort.c.id)
        .join(project, project.c.id == cohort.c.project_id)
        .where(gaps.c.gap_us > 0, *conditions(wanted))
        .order_by(gaps.c.saved_us.desc())
        .limit(most)
    )
    found: defaultdict[Group, list[int]] = defaultdict(list)
    for row in conn.execute(statement):
        found[tuple(row[len(gaps.c) :])].append(row.gap_us)
    return found


def _gaps(wanted: CohortFilter, window: Span) -> Subquery:
    columns = checkpoint.c
    before = func.lag(columns.saved_us).over(
        partition_by=[columns.project_id, columns.job, columns.number], order_by=columns.saved_us
    )
    of_projects = [] if wanted.project_ids is None else [columns.project_id.in_(wanted.project_ids)]
    return (
        select(
            columns.project_id,
            columns.job,
            columns.saved_us,
            (columns.saved_us - before).label("gap_us"),
        )
        .where(columns.saved_us >= window[0], columns.saved_us < window[1], *of_projects)
        .subquery()
    )
