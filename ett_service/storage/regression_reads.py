"""Regressions as they are listed: filtered, sorted, a page at a time."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select, tuple_

from ett_service.core.regression import State
from ett_service.storage import regression_rows
from ett_service.storage.regression_rows import Regression
from ett_service.storage.tables import api_key, regression
from ett_service.storage.view_words import number, told

_BEFORE_ALL = -1e300  #: what is not known sorts as less than anything
_OPEN = (State.PENDING.value, State.FIRING.value)

ORDERS: Mapping[str, ColumnElement[Any]] = {
    "pending_at": regression.c.pending_us,
    "onset_at": regression.c.onset_us,
    "last_run_at": regression.c.last_run_us,
    "ratio": func.coalesce(number(regression.c.finding, "ratio"), _BEFORE_ALL),
    "gpu_hours_per_week": func.coalesce(
        number(regression.c.finding, "impact", "gpu_hours_per_week"), _BEFORE_ALL
    ),
}
"""What regressions can be sorted by."""


class Place(NamedTuple):
    """Behind which row a page begins: its sort value, project and id."""

    value: float
    project_id: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which regressions; what is empty or None asks nothing, but for those that lapsed."""

    states: Collection[str] = ()  #: without any: all but those that were pending and lapsed
    verdicts: Collection[str] = ()
    equal: Mapping[str, str] = field(default_factory=dict)  #: by column: metric, phase
    where: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Values by dimension of the cohort, any of which will do."""
    from_us: int | None = None  #: that were not over before
    to_us: int | None = None  #: that set in before


def page(
    conn: Connection,
    project_ids: Collection[int] | None,
    wanted: Wanted,
    *,
    sort: str,
    descending: bool,
    limit: int,
    after: Place | None = None,
) -> list[tuple[Regression, Place]]:
    """Read up to *limit* regressions of these projects (None: of all), each with its place.

    A page begins behind a row and not at a count: what comes between two pages repeats nothing.
    """
    order = ORDERS[sort]
    keys = (order, regression.c.project_id, regression.c.id)
    statement = _of(project_ids).add_columns(order.label("place")).where(*_conditions(wanted))
    if after is not None:
        here, there = tuple_(*keys), tuple_(*after)
        statement = statement.where(here < there if descending else here > there)
    ordered = (key.desc() if descending else key.asc() for key in keys)
    rows = conn.execute(statement.order_by(*ordered).limit(limit))
    return [(regression_rows.read(row), Place(row.place, row.project_id, row.id)) for row in rows]


def one(
    conn: Connection, project_ids: Collection[int] | None, regression_id: str
) -> Regression | None:
    """Read a regression by its id; None where these projects have none of it."""
    statement = _of(project_ids).where(regression.c.id == regression_id)
    row = conn.execute(statement.order_by(regression.c.project_id).limit(1)).first()
    return None if row is None else regression_rows.read(row)


def names(conn: Connection, prefixes: Iterable[str | None]) -> dict[str, str]:
    """Return the names of the keys with these prefixes, of those that there are."""
    wanted = sorted({prefix for prefix in prefixes if prefix})
    rows = conn.execute(
        select(api_key.c.prefix, api_key.c.name).where(api_key.c.prefix.in_(wanted))
    )
    return dict(rows.all())


def _of(project_ids: Collection[int] | None) -> Select[*tuple[Any, ...]]:
    if project_ids is None:
        return regression_rows.SELECT
    return regression_rows.SELECT.where(regression.c.project_id.in_(project_ids))


def _conditions(wanted: Wanted) -> list[ColumnElement[bool]]:
    found = [regression.c[name] == value for name, value in wanted.equal.items()]
    if wanted.verdicts:
        found.append(regression.c.verdict.in_(wanted.verdicts))
    if wanted.states:
        found.append(regression.c.state.in_(wanted.states))
    else:
        found.append(regression.c.state != State.INACTIVE.value)
    for dimension, values in wanted.where.items():
        found.append(told(regression.c.cohort, dimension).in_(values))
    if wanted.from_us is not None:
        ended = func.coalesce(regression.c.resolved_us, regression.c.last_run_us)
        found.append(or_(regression.c.state.in_(_OPEN), ended >= wanted.from_us))
    if wanted.to_us is not None:
        found.append(regression.c.onset_us < wanted.to_us)
    return found
