"""Regressions: read one by one or a page at a time, and what people do to them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    func,
    or_,
    select,
    tuple_,
    update,
)

from ett_service.core.errors import EttError
from ett_service.core.regressions.finding import Resolution, State, Triage, Verdict
from ett_service.core.regressions.state import resolved
from ett_service.storage.engine.statements import replace_rows
from ett_service.storage.regressions import findings
from ett_service.storage.regressions.findings import Act, Change, Regression
from ett_service.storage.schema import accepted_baseline, api_key, regression, regression_change
from ett_service.storage.schema.view_expressions import json_member, number


class NotFiring(EttError):
    """Only what fires can be acknowledged."""


_CHANGES = (
    select(regression_change).where(*findings.CHANGES_BY_ID).order_by(regression_change.c.seq)
)
_RULED_OUT = select(regression_change.c.suspect).where(*findings.CHANGES_BY_ID)
_GET = findings.SELECT.where(*findings.BY_ID)
_LOCK = _GET.with_for_update(of=regression)


def get(conn: Connection, project_id: int, regression_id: str) -> Regression | None:
    """Read a regression; None where there is none of that id."""
    row = conn.execute(_GET, findings.of_id(project_id, regression_id)).one_or_none()
    return None if row is None else findings.regression_of(row)


def changes(conn: Connection, project_id: int, regression_id: str) -> list[Change]:
    """Read the changes of a regression, the oldest first."""
    rows = conn.execute(_CHANGES, findings.of_id(project_id, regression_id))
    return [Change(row.seq, row.at_us, row.what, row.by, row.why, row.version) for row in rows]


def ruled_out(conn: Connection, project_id: int, regression_id: str) -> frozenset[str]:
    """Read the suspects that runs ruled out, such as ``code_version 2026.46``."""
    rows = conn.scalars(_RULED_OUT, findings.of_id(project_id, regression_id))
    return frozenset(filter(None, rows))


def acknowledge(
    conn: Connection, project_id: int, regression_id: str, act: Act
) -> Regression | None:
    """Record who works on a regression; the first stays. None where there is none of that id.

    Raises:
        NotFiring: It does not fire.
    """
    stored = locked(conn, project_id, regression_id)
    if stored is None or stored.acknowledged_us is not None:
        return stored
    if stored.standing.state is not State.FIRING:
        raise NotFiring(f"{regression_id} is {stored.standing.state}.")
    columns = {"acknowledged_us": act.at_us, "acknowledged_by": act.by}
    return _changed(conn, stored, act, "acknowledged", columns)


def triage(
    conn: Connection, project_id: int, regression_id: str, called: Triage, act: Act
) -> Regression | None:
    """Record what somebody calls a regression; the last word counts. None where there is none."""
    stored = locked(conn, project_id, regression_id)
    if stored is None:
        return None
    columns = {"triage": called.value, "triage_by": act.by, "triage_us": act.at_us}
    return _changed(conn, stored, act, f"triaged_{called}", columns)


def rule_out(
    conn: Connection, project_id: int, regression_id: str, suspect: str, act: Act
) -> Regression | None:
    """Record that a suspect is not the cause; None where there is no finding of that id."""
    stored = locked(conn, project_id, regression_id)
    if stored is not None:
        findings.add_change(
            conn, project_id, regression_id, "suspect_ruled_out", act,
            version=stored.standing.version, suspect=suspect,
        )  # fmt: skip
    return stored


def accept(conn: Connection, project_id: int, regression_id: str, act: Act) -> Regression | None:
    """Accept a regression as normal from its onset on: it is resolved, and no baseline is older.

    None where there is none of that id.
    """
    stored = locked(conn, project_id, regression_id)
    if stored is None:
        return None
    standing = stored.standing
    if standing.state is State.FIRING:
        standing = resolved(standing, act.at_us, Resolution.ACCEPTED)
    elif standing.state is State.PENDING:
        standing = replace(standing, state=State.INACTIVE, runs=0)
    _put_baseline(conn, stored, act)
    return _changed(conn, stored, act, "accepted", findings.columns_of(standing))


def _put_baseline(conn: Connection, stored: Regression, act: Act) -> None:
    row = {
        "project_id": stored.project_id,
        "fingerprint": stored.series.fingerprint,
        "since_us": stored.standing.onset_us,
        "why": act.why,
        "made_by": act.by,
        "made_us": act.at_us,
    }
    replace_rows(conn, accepted_baseline, [row])


def locked(conn: Connection, project_id: int, regression_id: str) -> Regression | None:
    """Read a regression, whose row nobody else changes until the transaction ends."""
    row = conn.execute(_LOCK, findings.of_id(project_id, regression_id)).one_or_none()
    return None if row is None else findings.regression_of(row)


def _changed(
    conn: Connection, stored: Regression, act: Act, what: str, columns: Mapping[str, Any]
) -> Regression:
    of = findings.of_id(stored.project_id, stored.id)
    conn.execute(update(regression).where(*findings.BY_ID).values(columns), of)
    row = conn.execute(_GET, of).one()
    findings.add_change(conn, stored.project_id, stored.id, what, act, version=row.version)
    return findings.regression_of(row)


_BEFORE_ALL = -1e300  #: unknown values sort as less than anything

ORDERS: Mapping[str, ColumnElement[Any]] = {
    "pending_at": regression.c.pending_us,
    "onset_at": regression.c.onset_us,
    "last_run_at": regression.c.last_run_us,
    "ratio": func.coalesce(number(regression.c.finding, "ratio"), _BEFORE_ALL),
    "gpu_hours_per_week": func.coalesce(
        number(regression.c.finding, "impact", "gpu_hours_per_week"), _BEFORE_ALL
    ),
}
"""Regressions can be sorted by these."""


class RegressionPosition(NamedTuple):
    """The row after which a page begins: its sort value, project and id."""

    value: float
    project_id: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionFilter:
    """Conditions on regressions; empty or None is no condition."""

    states: Collection[str] = ()  #: empty for all but inactive
    verdicts: Collection[str] = ()  #: empty for all but small
    equal: Mapping[str, str] = field(default_factory=dict)  #: by column: metric, phase
    where: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Values by dimension of the cohort, any of which will do."""
    from_us: int | None = None  #: not over before
    to_us: int | None = None  #: began before
    without_noise: bool = False  #: without what somebody called noise
    merged: bool = False  #: also what another finding reports


def page(
    conn: Connection,
    project_ids: Collection[int] | None,
    regression_filter: RegressionFilter,
    *,
    sort: str,
    descending: bool,
    limit: int,
    after: RegressionPosition | None = None,
) -> list[tuple[Regression, RegressionPosition]]:
    """Read up to *limit* regressions of these projects (None: of all), each with its position.

    A page begins after a row and not at a count, so new regressions repeat nothing.
    """
    order = ORDERS[sort]
    keys = (order, regression.c.project_id, regression.c.id)
    statement = (
        _of_projects(project_ids)
        .add_columns(order.label("sort_value"))
        .where(*_conditions(regression_filter))
    )
    if after is not None:
        here, there = tuple_(*keys), tuple_(*after)
        statement = statement.where(here < there if descending else here > there)
    ordered = (key.desc() if descending else key.asc() for key in keys)
    rows = conn.execute(statement.order_by(*ordered).limit(limit))
    return [
        (findings.regression_of(row), RegressionPosition(row.sort_value, row.project_id, row.id))
        for row in rows
    ]


def every(
    conn: Connection, project_ids: Collection[int] | None, regression_filter: RegressionFilter
) -> list[Regression]:
    """Read all regressions of these projects (None: of all) that match."""
    rows = conn.execute(_of_projects(project_ids).where(*_conditions(regression_filter)))
    return [findings.regression_of(row) for row in rows]


def count(
    conn: Connection, project_ids: Collection[int] | None, regression_filter: RegressionFilter
) -> int:
    """Count the regressions of these projects (None: of all) that match."""
    conditions = _conditions(regression_filter)
    if project_ids is not None:
        conditions.append(regression.c.project_id.in_(project_ids))
    counted = select(func.count()).select_from(regression).where(*conditions)
    return conn.execute(counted).scalar_one()


def find(
    conn: Connection, project_ids: Collection[int] | None, regression_id: str
) -> Regression | None:
    """Read a regression by its id; None where these projects have none of it."""
    statement = _of_projects(project_ids).where(regression.c.id == regression_id)
    row = conn.execute(statement.order_by(regression.c.project_id).limit(1)).first()
    return None if row is None else findings.regression_of(row)


def key_names(conn: Connection, prefixes: Iterable[str | None]) -> dict[str, str]:
    """Return the names of the keys with these prefixes, as far as there are any."""
    named = sorted({prefix for prefix in prefixes if prefix})
    rows = conn.execute(select(api_key.c.prefix, api_key.c.name).where(api_key.c.prefix.in_(named)))
    return dict(rows.all())


def _of_projects(project_ids: Collection[int] | None) -> Select[*tuple[Any, ...]]:
    if project_ids is None:
        return findings.SELECT
    return findings.SELECT.where(regression.c.project_id.in_(project_ids))


def _conditions(regression_filter: RegressionFilter) -> list[ColumnElement[bool]]:
    conditions = [regression.c[name] == value for name, value in regression_filter.equal.items()]
    conditions += [_is_of_kind(regression_filter), *_people_say(regression_filter)]
    for dimension, values in regression_filter.where.items():
        conditions.append(json_member(regression.c.cohort, dimension).in_(values))
    if regression_filter.from_us is not None:
        ended = func.coalesce(regression.c.resolved_us, regression.c.last_run_us)
        conditions.append(
            or_(regression.c.state.in_(findings.OPEN), ended >= regression_filter.from_us)
        )
    if regression_filter.to_us is not None:
        conditions.append(regression.c.onset_us < regression_filter.to_us)
    return conditions


def _is_of_kind(regression_filter: RegressionFilter) -> ColumnElement[bool]:
    states, verdicts = regression_filter.states, regression_filter.verdicts
    return and_(
        regression.c.state.in_(states) if states else regression.c.state != State.INACTIVE.value,
        regression.c.verdict.in_(verdicts)
        if verdicts
        else regression.c.verdict != Verdict.SMALL.value,
    )


def _people_say(regression_filter: RegressionFilter) -> Iterator[ColumnElement[bool]]:
    if regression_filter.without_noise:
        yield func.coalesce(regression.c.triage, "") != Triage.NOISE.value
    if not regression_filter.merged:
        yield regression.c.merged_into.is_(None)
