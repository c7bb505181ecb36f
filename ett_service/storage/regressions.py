"""What people say of a regression, and what happened to it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    Connection,
    bindparam,
    func,
    select,
    update,
)

from ett_service.core.errors import EttError
from ett_service.core.regression import Series, State, Triage
from ett_service.core.regression_state import resolved
from ett_service.storage import finding_text, regression_rows
from ett_service.storage.regression_rows import Change, Regression
from ett_service.storage.tables import accepted_baseline, regression, regression_change
from ett_service.storage.writes import replacing


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
        finding = finding_text.finding(text)
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
    conn.execute(replacing(conn.dialect.name, accepted_baseline), row)


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
