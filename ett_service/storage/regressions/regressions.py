"""Regressions: listed a page at a time, and what people say of them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    func,
    or_,
    select,
    tuple_,
    update,
)

from ett_service.core.errors import EttError
from ett_service.core.regressions.finding import Series, State, Triage
from ett_service.core.regressions.state import resolved
from ett_service.storage.engine.statements import replace_rows
from ett_service.storage.regressions import rows as regression_rows
from ett_service.storage.regressions.rows import Change, Regression
from ett_service.storage.schema import accepted_baseline, api_key, regression, regression_change
from ett_service.storage.schema.view_expressions import json_member, number


class NotFiring(EttError):
    """Only what fires can be acknowledged."""


@dataclass(frozen=True, slots=True)
class Act:
    """Who does something to a regression, why and when."""

    by: str
    why: str
    at_us: int


_ONE = (regression.c.project_id == bindparam("of_project"), regression.c.id == bindparam("of_id"))
_CHANGES = (
    select(regression_change)
    .where(
        regression_change.c.project_id == bindparam("of_project"),
        regression_change.c.regression_id == bindparam("of_id"),
    )
    .order_by(regression_change.c.seq)
)
_ACCEPTED = select(accepted_baseline.c.fingerprint, accepted_baseline.c.since_us).where(
    accepted_baseline.c.project_id == bindparam("of_project")
)
_FINDINGS = (
    select(func.max(regression.c.finding))
    .where(
        regression.c.project_id == bindparam("of_project"),
        regression.c.fingerprint.in_(bindparam("fingerprints", expanding=True)),
    )
    .group_by(regression.c.fingerprint)
)
_GET = regression_rows.SELECT.where(*_ONE)
_LOCK = _GET.with_for_update(of=regression)


def get(conn: Connection, project_id: int, regression_id: str) -> Regression | None:
    """Read one; None where there is none of that id."""
    row = conn.execute(_GET, _of(project_id, regression_id)).one_or_none()
    return None if row is None else regression_rows.read(row)


def changes(conn: Connection, project_id: int, regression_id: str) -> list[Change]:
    """Read what happened to one, the first first."""
    rows = conn.execute(_CHANGES, _of(project_id, regression_id))
    return [Change(row.seq, row.at_us, row.what, row.by, row.why, row.version) for row in rows]


def acknowledge(
    conn: Connection, project_id: int, regression_id: str, act: Act
) -> Regression | None:
    """Write down that somebody sees to it; the first stays. None where there is none of that id.

    Raises:
        NotFiring: There is nothing to see to.
    """
    known = _locked(conn, project_id, regression_id)
    if known is None or known.acknowledged_us is not None:
        return known
    if known.standing.state is not State.FIRING:
        raise NotFiring(f"{regression_id} is {known.standing.state}.")
    said = {"acknowledged_us": act.at_us, "acknowledged_by": act.by}
    return _changed(conn, known, act, "acknowledged", said)


def triage(
    conn: Connection, project_id: int, regression_id: str, called: Triage, act: Act
) -> Regression | None:
    """Write down what somebody calls it; the last word counts. None where there is none."""
    known = _locked(conn, project_id, regression_id)
    if known is None:
        return None
    said = {"triage": called.value, "triage_by": act.by, "triage_us": act.at_us}
    return _changed(conn, known, act, f"triaged_{called}", said)


def accept(conn: Connection, project_id: int, regression_id: str, act: Act) -> Regression | None:
    """Take what is found for the new normal: it is resolved, and nothing before it is baseline.

    The new normal began where the regression did, at its onset. None where there is none of that
    id.
    """
    known = _locked(conn, project_id, regression_id)
    if known is None:
        return None
    standing = known.standing
    if standing.state is State.FIRING:
        standing = resolved(standing, act.at_us)
    elif standing.state is State.PENDING:
        standing = replace(standing, state=State.INACTIVE, runs=0)
    _put_baseline(conn, known, act)
    return _changed(conn, known, act, "accepted", regression_rows.values(standing))


def accepted(conn: Connection, project_id: int) -> dict[Series, int]:
    """Read since when values may be part of a baseline, of the series that were accepted."""
    found = conn.execute(_ACCEPTED, {"of_project": project_id})
    since_us = {row.fingerprint: row.since_us for row in found}
    of = {"of_project": project_id, "fingerprints": [*since_us]}
    latest: dict[Series, int] = {}
    for text in conn.execute(_FINDINGS, of).scalars():
        finding = regression_rows.finding(text)
        since = since_us[finding.fingerprint]
        latest[finding.series] = max(since, latest.get(finding.series, since))
    return latest


def _put_baseline(conn: Connection, known: Regression, act: Act) -> None:
    row = {
        "project_id": known.project_id,
        "fingerprint": known.standing.finding.fingerprint,
        "since_us": known.standing.onset_us,
        "why": act.why,
        "made_by": act.by,
        "made_us": act.at_us,
    }
    replace_rows(conn, accepted_baseline, [row])


def _locked(conn: Connection, project_id: int, regression_id: str) -> Regression | None:
    row = conn.execute(_LOCK, _of(project_id, regression_id)).one_or_none()
    return None if row is None else regression_rows.read(row)


def _changed(
    conn: Connection, known: Regression, act: Act, what: str, columns: Mapping[str, Any]
) -> Regression:
    of = _of(known.project_id, known.id)
    conn.execute(update(regression).where(*_ONE).values(columns), of)
    row = conn.execute(_GET, of).one()
    regression_rows.add_change(
        conn, known.project_id, known.id, at_us=act.at_us, what=what, by=act.by, why=act.why,
        version=row.version,
    )  # fmt: skip
    return regression_rows.read(row)


def _of(project_id: int, regression_id: str) -> dict[str, Any]:
    return {"of_project": project_id, "of_id": regression_id}


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


class RegressionPosition(NamedTuple):
    """Behind which row a page begins: its sort value, project and id."""

    value: float
    project_id: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionFilter:
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
    wanted: RegressionFilter,
    *,
    sort: str,
    descending: bool,
    limit: int,
    after: RegressionPosition | None = None,
) -> list[tuple[Regression, RegressionPosition]]:
    """Read up to *limit* regressions of these projects (None: of all), each with its place.

    A page begins behind a row and not at a count: what comes between two pages repeats nothing.
    """
    order = ORDERS[sort]
    keys = (order, regression.c.project_id, regression.c.id)
    statement = (
        _of_projects(project_ids).add_columns(order.label("place")).where(*_conditions(wanted))
    )
    if after is not None:
        here, there = tuple_(*keys), tuple_(*after)
        statement = statement.where(here < there if descending else here > there)
    ordered = (key.desc() if descending else key.asc() for key in keys)
    rows = conn.execute(statement.order_by(*ordered).limit(limit))
    return [
        (regression_rows.read(row), RegressionPosition(row.place, row.project_id, row.id))
        for row in rows
    ]


def one(
    conn: Connection, project_ids: Collection[int] | None, regression_id: str
) -> Regression | None:
    """Read a regression by its id; None where these projects have none of it."""
    statement = _of_projects(project_ids).where(regression.c.id == regression_id)
    row = conn.execute(statement.order_by(regression.c.project_id).limit(1)).first()
    return None if row is None else regression_rows.read(row)


def names(conn: Connection, prefixes: Iterable[str | None]) -> dict[str, str]:
    """Return the names of the keys with these prefixes, of those that there are."""
    wanted = sorted({prefix for prefix in prefixes if prefix})
    rows = conn.execute(
        select(api_key.c.prefix, api_key.c.name).where(api_key.c.prefix.in_(wanted))
    )
    return dict(rows.all())


def _of_projects(project_ids: Collection[int] | None) -> Select[*tuple[Any, ...]]:
    if project_ids is None:
        return regression_rows.SELECT
    return regression_rows.SELECT.where(regression.c.project_id.in_(project_ids))


def _conditions(wanted: RegressionFilter) -> list[ColumnElement[bool]]:
    found = [regression.c[name] == value for name, value in wanted.equal.items()]
    if wanted.verdicts:
        found.append(regression.c.verdict.in_(wanted.verdicts))
    if wanted.states:
        found.append(regression.c.state.in_(wanted.states))
    else:
        found.append(regression.c.state != State.INACTIVE.value)
    for dimension, values in wanted.where.items():
        found.append(json_member(regression.c.cohort, dimension).in_(values))
    if wanted.from_us is not None:
        ended = func.coalesce(regression.c.resolved_us, regression.c.last_run_us)
        found.append(or_(regression.c.state.in_(_OPEN), ended >= wanted.from_us))
    if wanted.to_us is not None:
        found.append(regression.c.onset_us < wanted.to_us)
    return found
