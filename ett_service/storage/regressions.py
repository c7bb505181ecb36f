"""Regressions as people read them, and what they say of them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    bindparam,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import JSONB

from ett_service.core.errors import EttError
from ett_service.core.regression import Metric, Series, State, Triage, Verdict
from ett_service.core.regression_state import resolved
from ett_service.storage import finding_text, regression_rows
from ett_service.storage.regression_rows import Change, Regression
from ett_service.storage.tables import accepted_baseline, regression, regression_change


class NotFiring(EttError):
    """Only what fires can be acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionFilter:
    """Which regressions; what is empty or None asks nothing."""

    states: Collection[State] = ()
    verdicts: Collection[Verdict] = ()
    metric: Metric | None = None
    phase: str | None = None
    cohort: Mapping[str, str] = field(default_factory=dict)  #: that have these dimensions so
    from_us: int | None = None  #: not resolved before
    to_us: int | None = None  #: first found before


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
_INSERTS: dict[str, type[postgresql.Insert] | type[sqlite.Insert]] = {
    "postgresql": postgresql.Insert,
    "sqlite": sqlite.Insert,
}


def listing(
    conn: Connection,
    project_ids: Collection[int] | None,
    wanted: RegressionFilter,
    *,
    limit: int,
    after: tuple[int, str] | None = None,
) -> list[Regression]:
    """Read up to *limit* regressions of these projects (None: of all), the latest found first.

    *after* is the instant (``standing.pending_us``) and the id of the last of the page before.
    """
    statement = regression_rows.SELECT.where(*_conditions(conn, wanted))
    if project_ids is not None:
        statement = statement.where(regression.c.project_id.in_(project_ids))
    keys = (regression.c.pending_us, regression.c.id)
    if after is not None:
        statement = statement.where(tuple_(*keys) < tuple_(*after))
    ordered = statement.order_by(*(key.desc() for key in keys)).limit(limit)
    return [regression_rows.read(row) for row in conn.execute(ordered)]


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
    either_way = [*since_us, *(one[::-1] for one in since_us)]  # see ``Finding.fingerprint``
    of = {"of_project": project_id, "fingerprints": either_way}
    series = [finding_text.finding(text).series for text in conn.execute(_FINDINGS, of).scalars()]
    return {one: since_us[one.fingerprint] for one in series}


def _put_baseline(conn: Connection, known: Regression, act: Act) -> None:
    said = {
        "since_us": known.standing.onset_us,
        "why": act.why,
        "made_by": act.by,
        "made_us": act.at_us,
    }
    of = {"project_id": known.project_id, "fingerprint": known.series.fingerprint}
    statement = _INSERTS[conn.dialect.name](accepted_baseline).values(of | said)
    conn.execute(
        statement.on_conflict_do_update(
            index_elements=[accepted_baseline.c.project_id, accepted_baseline.c.fingerprint],
            set_=said,
        )
    )


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


def _conditions(conn: Connection, wanted: RegressionFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.states:
        found.append(regression.c.state.in_([one.value for one in wanted.states]))
    if wanted.verdicts:
        found.append(regression.c.verdict.in_([one.value for one in wanted.verdicts]))
    if wanted.metric is not None:
        found.append(regression.c.metric == wanted.metric.value)
    if wanted.phase is not None:
        found.append(regression.c.phase == wanted.phase)
    if wanted.to_us is not None:
        found.append(regression.c.pending_us < wanted.to_us)
    if wanted.from_us is not None:
        found.append(_ends_at_or_after(wanted.from_us))
    return found + [_has(conn, *dimension) for dimension in wanted.cohort.items()]


def _ends_at_or_after(from_us: int) -> ColumnElement[bool]:
    """What is open has no end; what lapsed ended with its last run."""
    is_open = regression.c.state.in_((State.PENDING.value, State.FIRING.value))
    ended = func.coalesce(regression.c.resolved_us, regression.c.last_run_us)
    return or_(is_open, ended >= from_us)


def _has(conn: Connection, name: str, value: str) -> ColumnElement[bool]:
    if conn.dialect.name == "postgresql":
        found: ColumnElement[bool] = regression.c.cohort.cast(JSONB)[name].astext == value
        return found
    one = func.json_each(regression.c.cohort).table_valued("key", "value")
    return exists(select(1).select_from(one).where(one.c.key == name, one.c.value == value))
