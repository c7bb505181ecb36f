"""What people called findings of each metric, and since when that counts."""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, select

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, Triage, Verdict
from ett_service.storage.engine.statements import replace_rows
from ett_service.storage.regressions.findings import Act
from ett_service.storage.schema import project, regression, tuning_reset

LEAST, MOST = 0.75, 2.0
"""The bounds of a factor."""

SINCE_US = 180 * DAY_US
"""Older verdicts do not count."""

_PRIOR = 4  #: verdicts that an equal number of real and noise is worth


class Verdicts(NamedTuple):
    """What people called the findings of one metric."""

    real: int
    noise: int

    @property
    def factor(self) -> float:
        """The factor of what the smallest change exceeds 1 by: over 1 after much noise.

        1 without verdicts, and where there is as much noise as not.
        """
        balance = (self.noise - self.real) / (self.noise + self.real + _PRIOR)
        return min(MOST, max(LEAST, math.exp2(balance)))


_COUNTED = (Triage.REAL.value, Triage.NOISE.value)


@dataclass(frozen=True, slots=True)
class Tuning:
    """The verdicts on one metric of a project that count."""

    project: str
    metric: Metric
    verdicts: Verdicts
    reset_us: int | None  #: earlier verdicts do not count
    reset_by: str | None
    reset_why: str | None


def tunings(conn: Connection, project_ids: Collection[int] | None, now_us: int) -> list[Tuning]:
    """Read the verdicts by project (None: of all) and metric, where there are any or a reset."""
    resets = {
        (row.project_id, row.metric): row
        for row in conn.execute(_of(select(tuning_reset), tuning_reset.c.project_id, project_ids))
    }
    counts = _counts(conn, project_ids, now_us, {key: row.since_us for key, row in resets.items()})
    keys = sorted({*resets, *((project_id, metric) for project_id, metric, _ in counts)})
    names = dict(conn.execute(select(project.c.id, project.c.name)).all())
    answer = []
    for project_id, metric in keys:
        real, noise = (counts[project_id, metric, word] for word in _COUNTED)
        row = resets.get((project_id, metric))
        reset = (None, None, None) if row is None else (row.since_us, row.made_by, row.why)
        verdicts = Verdicts(real, noise)
        answer.append(Tuning(names[project_id], Metric(metric), verdicts, *reset))
    return answer


def factors(conn: Connection, project_id: int, now_us: int) -> dict[Metric, float]:
    """Return the factors of a project by metric; those of 1 are left out."""
    tuned = {each.metric: each.verdicts.factor for each in tunings(conn, [project_id], now_us)}
    return {metric: factor for metric, factor in tuned.items() if factor != 1}


def reset(conn: Connection, project_id: int, metric: Metric, act: Act) -> None:
    """Ignore the verdicts on a metric so far."""
    row = {
        "project_id": project_id,
        "metric": metric.value,
        "since_us": act.at_us,
        "why": act.why,
        "made_by": act.by,
    }
    replace_rows(conn, tuning_reset, [row])


def _counts(
    conn: Connection,
    project_ids: Collection[int] | None,
    now_us: int,
    since_us: dict[tuple[int, str], int],
) -> Counter[tuple[int, str, str]]:
    columns = (regression.c.project_id, regression.c.metric, regression.c.triage)
    statement = select(*columns, regression.c.triage_us).where(
        regression.c.triage.in_(_COUNTED),
        regression.c.verdict == Verdict.REGRESSION.value,
        regression.c.triage_us >= now_us - SINCE_US,
    )
    rows = conn.execute(_of(statement, regression.c.project_id, project_ids))
    return Counter(
        (project_id, metric, called)
        for project_id, metric, called, at_us in rows
        if at_us >= since_us.get((project_id, metric), 0)
    )


def _of(
    statement: Select[*tuple[Any, ...]], column: ColumnElement[int], ids: Collection[int] | None
) -> Select[*tuple[Any, ...]]:
    return statement if ids is None else statement.where(column.in_(ids))
