"""What a run of the detector makes of what was known, written by who holds the lease."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Attribution, Finding, State, Verdict
from ett_service.core.regressions.state import (
    FindingKey,
    FindingState,
    StateRules,
    Transition,
    advance,
    transition,
)
from ett_service.storage.regressions import rows as regression_rows
from ett_service.storage.regressions.rows import DETECTOR, Regression
from ett_service.storage.schema import regression

KEPT_IN_MIND_US = 90 * DAY_US
"""For so long it is known what was resolved: longer than values of its days are looked at."""

_OPEN = (State.PENDING.value, State.FIRING.value)


class NewFinding(NamedTuple):
    """A finding of a run, and what was worked out beside it."""

    finding: Finding
    severity: str
    attribution: Attribution


_KNOWN = (
    select(regression)
    .where(
        regression.c.project_id == bindparam("of_project"),
        or_(
            regression.c.state.in_(_OPEN),
            regression.c.resolved_us >= bindparam("since_us"),
        ),
    )
    .order_by(regression.c.pending_us, regression.c.id)
)
_ONE = (regression.c.project_id == bindparam("of_project"), regression.c.id == bindparam("of_id"))
_TOLD = update(regression).where(*_ONE).values(told=bindparam("now_told"))
_OWED = regression_rows.SELECT.where(
    regression.c.verdict == Verdict.REGRESSION.value, regression.c.version != regression.c.told
).order_by(regression.c.project_id, regression.c.id)


def known(conn: Connection, project_id: int, at_us: int) -> dict[FindingKey, FindingState]:
    """Read what is open or was resolved not long before *at_us*, the latest of each thread."""
    rows = conn.execute(_KNOWN, _known_of(project_id, at_us))
    found = [regression_rows.standing(row) for row in rows]
    return {standing.thread: standing for standing in found}


def record(
    conn: Connection, project_id: int, at_us: int, found: Iterable[NewFinding], rules: StateRules
) -> None:
    """Take the step of the run at *at_us*, and write what it changes.

    What was known is read here, under the locks of its rows: somebody may have accepted one while
    the detector was at work.
    """
    seen = {FindingKey(one.finding.fingerprint, one.finding.verdict): one for one in found}
    rows = conn.execute(_KNOWN.with_for_update(), _known_of(project_id, at_us)).all()
    read = [(regression_rows.standing(row), row.id) for row in rows]
    ids = {standing.thread: row_id for standing, row_id in read}
    before = {standing.thread: standing for standing, _ in read}
    after = advance(before, (one.finding for one in seen.values()), at_us, rules)
    for thread in {**before, **after}:
        was, now = before.get(thread), after.get(thread)
        if now is not was:
            changed = _Changed(project_id, ids.get(thread, ""), at_us, transition(was, now))
            _write(conn, changed, was, now, seen.get(thread))


def owed(conn: Connection) -> list[Regression]:
    """Read the regressions of all projects whose present version receivers do not know."""
    return [regression_rows.read(row) for row in conn.execute(_OWED)]


def tell(conn: Connection, known: Regression) -> None:
    """Write down that receivers were told of this version, or need not be."""
    of = {"of_project": known.project_id, "of_id": known.id, "now_told": known.standing.version}
    conn.execute(_TOLD, of)


def _known_of(project_id: int, at_us: int) -> dict[str, int]:
    return {"of_project": project_id, "since_us": at_us - KEPT_IN_MIND_US}


class _Changed(NamedTuple):
    project_id: int
    known_id: str
    at_us: int
    what: Transition | None


def _write(
    conn: Connection,
    changed: _Changed,
    was: FindingState | None,
    now: FindingState | None,
    seen: NewFinding | None,
) -> None:
    project_id, known_id, at_us, what = changed
    if now is None:
        assert was is not None
        now = replace(was, state=State.INACTIVE, runs=0, last_run_us=at_us)
    row = regression_rows.values(now)
    is_of_this_run = was is None or now.finding is not was.finding
    if seen is not None and is_of_this_run:
        row |= {
            "severity": seen.severity,
            "attribution": regression_rows.encode(seen.attribution),
        }
    if what in {Transition.FIRING, Transition.REOPENED}:
        row |= {"acknowledged_us": None, "acknowledged_by": None}
    if was is None or was.pending_us != now.pending_us:
        known_id = regression_rows.new_id(project_id, now.thread, now.pending_us)
        conn.execute(
            insert(regression), row | {"project_id": project_id, "id": known_id, "told": 0}
        )
    else:
        of = {"of_project": project_id, "of_id": known_id}
        conn.execute(update(regression).where(*_ONE).values(row), of)
    if what is not None:
        regression_rows.add_change(
            conn, project_id, known_id, at_us=at_us, what=what.value, by=DETECTOR, why="",
            version=now.version,
        )  # fmt: skip
