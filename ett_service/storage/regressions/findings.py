"""Rows of regressions, and findings as JSON."""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, Select, bindparam, func, insert, or_, select, update

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Series,
    State,
    Triage,
    Verdict,
)
from ett_service.core.regressions.state import (
    FindingKey,
    FindingState,
    StateRules,
    Transition,
    advance,
    transition,
)
from ett_service.storage.schema import detection_run, project, regression, regression_change


def to_json(value: Any) -> str:
    """Write a dataclass, or what is made of them, as JSON."""
    told = _speakable(msgspec.to_builtins(value))
    return json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def finding_from_json(text: str) -> Finding:
    """Read a finding back."""
    return msgspec.json.decode(text, type=Finding, strict=False)


def attribution_from_json(text: str) -> Attribution:
    """Read an attribution back."""
    return msgspec.json.decode(text, type=Attribution, strict=False)


def _speakable(value: Any) -> Any:
    """Write numbers that JSON has no word for as text, which readers take for numbers again."""
    if isinstance(value, dict):
        return {name: _speakable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_speakable(member) for member in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


DETECTOR = "detector"
"""Who made the changes that nobody asked for."""

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_DIGITS, _OTHER_DIGITS = 10, 16


@dataclass(frozen=True, slots=True)
class Regression:
    """A finding as it is kept, with what people said of it."""

    project_id: int
    project: str
    id: str
    standing: FindingState  #: inactive where it was pending, and lapsed
    severity: str
    attribution: Attribution
    told: int  #: the version that receivers were told of last; 0 for none
    acknowledged_us: int | None
    acknowledged_by: str | None
    triage: Triage | None
    triage_by: str | None
    triage_us: int | None
    written_us: int | None  #: when the run was written that it fires since

    @property
    def series(self) -> Series:
        """What it was found in."""
        return self.standing.finding.series


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened to a regression."""

    seq: int
    at_us: int
    what: str
    by: str  #: ``DETECTOR``, or the name that somebody gave, or that of a key
    why: str
    version: int


WRITTEN_US = (
    select(detection_run.c.made_us)
    .where(
        detection_run.c.project_id == regression.c.project_id,
        detection_run.c.at_us == regression.c.firing_us,
    )
    .scalar_subquery()
    .label("written_us")
)
SELECT: Select[*tuple[Any, ...]] = select(
    regression, project.c.name.label("project"), WRITTEN_US
).join(project, project.c.id == regression.c.project_id)
_OF_ONE = (
    regression_change.c.project_id == bindparam("of_project"),
    regression_change.c.regression_id == bindparam("of_id"),
)
_LAST_SEQ = select(func.coalesce(func.max(regression_change.c.seq), 0)).where(*_OF_ONE)


def new_id(project_id: int, thread: FindingKey, pending_us: int) -> str:
    """Name a finding after what it is and when it was first found, as a ULID looks.

    48 bits of milliseconds and 80 of a hash: ids sort by time, and a run that is repeated names
    the same finding the same.
    """
    hashed = hashlib.sha256(f"{project_id} {thread.fingerprint} {thread.verdict}".encode())
    other = int.from_bytes(hashed.digest()[:10], "big")
    return _digits(pending_us // 1_000, _TIME_DIGITS) + _digits(other, _OTHER_DIGITS)


def columns_of(standing: FindingState) -> dict[str, Any]:
    """Return the columns that tell a standing."""
    finding = standing.finding
    subject = finding.series.subject
    return {
        "fingerprint": finding.fingerprint,
        "metric": subject.metric.value,
        "phase": subject.phase,
        "stage": subject.stage,
        "cause": subject.cause,
        "cohort": json.dumps(dict(finding.series.cohort), ensure_ascii=False),
        "verdict": standing.verdict.value,
        "state": standing.state.value,
        "version": standing.version,
        "runs": standing.runs,
        "quiet_runs": standing.quiet_runs,
        "onset_us": standing.onset_us,
        "pending_us": standing.pending_us,
        "firing_us": standing.firing_us,
        "resolved_us": standing.resolved_us,
        "reopened": standing.reopened,
        "last_run_us": standing.last_run_us,
        "baseline_from_us": standing.baseline_from_us,
        "baseline_to_us": standing.baseline_to_us,
        "finding": to_json(finding),
    }


def regression_of(row: Row[*tuple[Any, ...]]) -> Regression:
    """Read one row of ``SELECT``."""
    return Regression(
        project_id=row.project_id,
        project=row.project,
        id=row.id,
        standing=state_of(row),
        severity=row.severity,
        attribution=attribution_from_json(row.attribution),
        told=row.told,
        acknowledged_us=row.acknowledged_us,
        acknowledged_by=row.acknowledged_by,
        triage=None if row.triage is None else Triage(row.triage),
        triage_by=row.triage_by,
        triage_us=row.triage_us,
        written_us=row.written_us,
    )


def state_of(row: Row[*tuple[Any, ...]]) -> FindingState:
    """Read where a finding stands."""
    return FindingState(
        verdict=Verdict(row.verdict),
        state=State(row.state),
        runs=row.runs,
        quiet_runs=row.quiet_runs,
        pending_us=row.pending_us,
        onset_us=row.onset_us,
        baseline_from_us=row.baseline_from_us,
        baseline_to_us=row.baseline_to_us,
        last_run_us=row.last_run_us,
        finding=finding_from_json(row.finding),
        firing_us=row.firing_us,
        resolved_us=row.resolved_us,
        reopened=row.reopened,
        version=row.version,
    )


def add_change(
    conn: Connection,
    project_id: int,
    regression_id: str,
    *,
    at_us: int,
    what: str,
    by: str,
    why: str,
    version: int,
) -> None:
    """Write down what happened; the row of the regression is locked by then."""
    of = {"of_project": project_id, "of_id": regression_id}
    conn.execute(
        insert(regression_change),
        {
            "project_id": project_id,
            "regression_id": regression_id,
            "seq": conn.execute(_LAST_SEQ, of).scalar_one() + 1,
            "at_us": at_us,
            "what": what,
            "by": by,
            "why": why,
            "version": version,
        },
    )


def _digits(value: int, count: int) -> str:
    digits = ""
    for _ in range(count):
        value, digit = divmod(value, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


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
_OWED = SELECT.where(
    regression.c.verdict == Verdict.REGRESSION.value, regression.c.version != regression.c.told
).order_by(regression.c.project_id, regression.c.id)


def recent_states(conn: Connection, project_id: int, at_us: int) -> dict[FindingKey, FindingState]:
    """Read what is open or was resolved not long before *at_us*, the latest of each thread."""
    rows = conn.execute(_KNOWN, _known_of(project_id, at_us))
    found = [state_of(row) for row in rows]
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
    read = [(state_of(row), row.id) for row in rows]
    ids = {standing.thread: row_id for standing, row_id in read}
    before = {standing.thread: standing for standing, _ in read}
    after = advance(before, (one.finding for one in seen.values()), at_us, rules)
    for thread in {**before, **after}:
        was, now = before.get(thread), after.get(thread)
        if now is not was:
            changed = _Changed(project_id, ids.get(thread, ""), at_us, transition(was, now))
            _write(conn, changed, was, now, seen.get(thread))


def unnotified(conn: Connection) -> list[Regression]:
    """Read the regressions of all projects whose present version receivers do not know."""
    return [regression_of(row) for row in conn.execute(_OWED)]


def mark_notified(conn: Connection, known: Regression) -> None:
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
    row = columns_of(now)
    is_of_this_run = was is None or now.finding is not was.finding
    if seen is not None and is_of_this_run:
        row |= {
            "severity": seen.severity,
            "attribution": to_json(seen.attribution),
        }
    if what in {Transition.FIRING, Transition.REOPENED}:
        row |= {"acknowledged_us": None, "acknowledged_by": None}
    if was is None or was.pending_us != now.pending_us:
        known_id = new_id(project_id, now.thread, now.pending_us)
        conn.execute(
            insert(regression), row | {"project_id": project_id, "id": known_id, "told": 0}
        )
    else:
        of = {"of_project": project_id, "of_id": known_id}
        conn.execute(update(regression).where(*_ONE).values(row), of)
    if what is not None:
        add_change(
            conn, project_id, known_id, at_us=at_us, what=what.value, by=DETECTOR, why="",
            version=now.version,
        )  # fmt: skip
