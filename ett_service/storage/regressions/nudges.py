"""Nudges: people move the onset or the cohort of what fires, which the search goes on from."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, insert, select, update

from ett_service.core.errors import EttError
from ett_service.core.intervals import SECOND_US
from ett_service.core.regressions.finding import Resolution, Series, SeriesCohort, State
from ett_service.core.regressions.state import FindingState, resolved
from ett_service.storage.regressions import findings
from ett_service.storage.regressions.findings import Act, Regression
from ett_service.storage.regressions.regressions import NotFiring, get, locked
from ett_service.storage.schema import regression

_VERDICT = ("triage", "triage_by", "triage_us")
_COPIED = ("severity", "attribution", "acknowledged_us", "acknowledged_by", *_VERDICT)


class CannotMove(EttError):
    """It cannot begin then, or be there."""


def move_onset(
    conn: Connection, project_id: int, regression_id: str, onset_us: int, act: Act
) -> Regression | None:
    """Move the onset of what fires; its baseline ends there. None where there is none of that id.

    The next search compares anew; until then the numbers are those of the last one.

    Raises:
        CannotMove: The onset is not within what was compared.
        NotFiring: It does not fire.
    """
    stored = _firing(conn, project_id, regression_id)
    if stored is None:
        return None
    standing = stored.standing
    if not standing.baseline_from_us < onset_us < standing.finding.after.to_us:
        raise CannotMove("The onset must lie within the days that the last run compared.")
    moved = replace(
        standing,
        onset_us=onset_us,
        baseline_to_us=onset_us,
        finding=replace(standing.finding, onset_us=onset_us),
    )
    of = findings.of_id(project_id, regression_id)
    values = findings.columns_of(moved)
    conn.execute(update(regression).where(*findings.BY_ID).values(values), of)
    _note(conn, stored, act, "onset_moved")
    return get(conn, project_id, regression_id)


def move_cohort(
    conn: Connection, project_id: int, regression_id: str, cohort: SeriesCohort, act: Act
) -> Regression | None:
    """Go on with what fires in another cohort; return that finding, into which this one is merged.

    None where there is none of that id. What fires there already goes on as it is. What is new
    there takes the verdict along, which so counts once, and still says where it fired.

    Raises:
        NotFiring: It does not fire.
    """
    stored = _firing(conn, project_id, regression_id)
    if stored is None or stored.series.cohort == cohort:
        return stored
    there = _moved(stored.standing, cohort)
    here = resolved(stored.standing, act.at_us, Resolution.MERGED)
    values = findings.columns_of(here)
    into = _open_id(conn, project_id, there)
    if into is None:
        into = _begun(conn, stored, there, act)
        values |= dict.fromkeys(_VERDICT)
    values["merged_into"] = into
    of = findings.of_id(project_id, regression_id)
    conn.execute(update(regression).where(*findings.BY_ID).values(values), of)
    _note(conn, stored, replace(act, why=f"into {into}: {act.why}"), "cohort_moved")
    return get(conn, project_id, into)


def _firing(conn: Connection, project_id: int, regression_id: str) -> Regression | None:
    stored = locked(conn, project_id, regression_id)
    if stored is not None and stored.standing.state is not State.FIRING:
        raise NotFiring(f"{regression_id} is {stored.standing.state}.")
    return stored


def _moved(standing: FindingState, cohort: SeriesCohort) -> FindingState:
    series = Series(standing.finding.series.subject, cohort)
    return replace(standing, finding=replace(standing.finding, series=series))


def _open_id(conn: Connection, project_id: int, standing: FindingState) -> str | None:
    row = conn.execute(
        select(regression.c.id).where(
            regression.c.project_id == project_id,
            regression.c.fingerprint == standing.key.fingerprint,
            regression.c.verdict == standing.verdict.value,
            regression.c.state == State.FIRING.value,
        )
    ).first()
    return None if row is None else str(row.id)


def _begun(conn: Connection, stored: Regression, there: FindingState, act: Act) -> str:
    """Store a finding in its new cohort, under an id that nothing has."""
    project_id = stored.project_id
    while get(conn, project_id, findings.new_id(project_id, there.key, there.pending_us)):
        there = replace(there, pending_us=there.pending_us + SECOND_US)
    new_id = findings.new_id(project_id, there.key, there.pending_us)
    of = findings.of_id(project_id, stored.id)
    copied = conn.execute(
        select(*(regression.c[name] for name in _COPIED)).where(*findings.BY_ID), of
    )
    row: dict[str, Any] = {**copied.mappings().one(), **findings.columns_of(there)}
    conn.execute(insert(regression), {**row, "project_id": project_id, "id": new_id, "told": 0})
    moved = replace(act, why=f"from {stored.id}: {act.why}")
    findings.add_change(conn, project_id, new_id, "cohort_moved", moved, version=there.version)
    return new_id


def _note(conn: Connection, stored: Regression, act: Act, what: str) -> None:
    version = stored.standing.version
    findings.add_change(conn, stored.project_id, stored.id, what, act, version=version)
