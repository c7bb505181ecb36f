"""Stored findings: their rows, and the step that a detection run takes."""

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, Select, bindparam, func, insert, or_, select, update

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    FindingKey,
    Resolution,
    RunFinding,
    Series,
    State,
    Triage,
    Verdict,
    improvement_fingerprint,
)
from ett_service.core.regressions.state import (
    FindingState,
    StateRules,
    advance,
    is_firing_version,
    transition,
)
from ett_service.storage.schema import (
    accepted_baseline,
    project,
    regression,
    regression_change,
)
from ett_service.storage.schema.alerting import SEARCHED_US, WRITTEN_US

DETECTOR = "detector"
"""The author of changes that no person made."""

REMEMBERED_US = 90 * DAY_US
"""How long what was resolved is remembered: longer than any baseline reaches back."""

OPEN = (State.PENDING.value, State.FIRING.value)

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_DIGITS, _HASH_DIGITS = 10, 16


@dataclass(frozen=True, slots=True)
class Regression:
    """A stored finding, with what people said of it."""

    project_id: int
    project: str
    id: str
    standing: FindingState  #: inactive where it was pending, and lapsed
    severity: str
    attribution: Attribution
    notified_version: int  #: the last that receivers were notified of; 0 for none
    acknowledged_us: int | None
    acknowledged_by: str | None
    triage: Triage | None
    triage_by: str | None
    triage_us: int | None
    merged_into: str | None  #: the id of the finding that reports it
    notified_us: int | None  #: when receivers were last notified
    written_us: int | None  #: when the run was stored since which it fires
    searched_us: int | None  #: when its project was first searched

    @property
    def series(self) -> Series:
        """The series that it was found in."""
        return self.standing.finding.series

    @property
    def is_quiet(self) -> bool:
        """Whether somebody called it noise: nobody is notified any more, and nothing counts it."""
        return self.triage is Triage.NOISE

    @property
    def is_news(self) -> bool:
        """Whether it fires, or receivers were last notified that it does."""
        return self.standing.state is State.FIRING or is_firing_version(self.notified_version)


@dataclass(frozen=True, slots=True)
class Act:
    """Who acts on a regression, why and when."""

    by: str
    why: str
    at_us: int


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a regression."""

    seq: int
    at_us: int
    what: str
    by: str  #: ``DETECTOR``, the name that somebody gave, or the name of a key
    why: str
    version: int


SELECT: Select[*tuple[Any, ...]] = select(
    regression, project.c.name.label("project"), WRITTEN_US, SEARCHED_US
).join(project, project.c.id == regression.c.project_id)
BY_ID = (regression.c.project_id == bindparam("of_project"), regression.c.id == bindparam("of_id"))
CHANGES_BY_ID = (
    regression_change.c.project_id == bindparam("of_project"),
    regression_change.c.regression_id == bindparam("of_id"),
)
_LAST_SEQ = select(func.coalesce(func.max(regression_change.c.seq), 0)).where(*CHANGES_BY_ID)
_REMEMBERED = (
    select(regression)
    .where(
        regression.c.project_id == bindparam("of_project"),
        or_(regression.c.state.in_(OPEN), regression.c.resolved_us >= bindparam("since_us")),
    )
    .order_by(regression.c.pending_us, regression.c.id)
)
_ACCEPTED = select(accepted_baseline.c.fingerprint, accepted_baseline.c.since_us).where(
    accepted_baseline.c.project_id == bindparam("of_project")
)
_BY_FINGERPRINT = (
    select(func.max(regression.c.finding))
    .where(
        regression.c.project_id == bindparam("of_project"),
        regression.c.fingerprint.in_(bindparam("fingerprints", expanding=True)),
    )
    .group_by(regression.c.fingerprint)
)


def recent_states(conn: Connection, project_id: int, at_us: int) -> dict[FindingKey, FindingState]:
    """Read what is open, or was resolved not long before *at_us*: the latest of each key."""
    rows = conn.execute(_REMEMBERED, _remembered_at(project_id, at_us))
    return {state.key: state for state in map(state_of, rows)}


def states_before(conn: Connection, project_id: int, at_us: int) -> list[FindingState]:
    """Read what fired or was resolved when the run at *at_us* began, as far as it is stored."""
    states = map(state_of, conn.execute(_REMEMBERED, _remembered_at(project_id, at_us)))
    return [
        replace(state, state=State.FIRING, resolved_us=None)
        if state.resolved_us is not None and state.resolved_us >= at_us
        else state
        for state in states
        if state.firing_us is not None and state.firing_us < at_us
    ]


def accepted(conn: Connection, project_id: int) -> dict[Series, int]:
    """Read since when values may be part of a baseline, of the series that were accepted."""
    rows = conn.execute(_ACCEPTED, {"of_project": project_id})
    since_us = {row.fingerprint: row.since_us for row in rows}
    either = [*since_us, *map(improvement_fingerprint, since_us)]
    of = {"of_project": project_id, "fingerprints": either}
    series = (
        finding_from_json(text).series for text in conn.execute(_BY_FINGERPRINT, of).scalars()
    )
    return {each: since_us[each.fingerprint] for each in series}


def record(
    conn: Connection,
    project_id: int,
    at_us: int,
    findings: Iterable[RunFinding],
    rules: StateRules,
    *,
    gone: Collection[Series] = (),
    standing: Collection[Series] = (),
) -> None:
    """Take the step of the run at *at_us*, and write what it changes.

    *gone* and *standing* are those of ``advance``. The states before it are read here,
    under the locks of their rows: somebody may have accepted one of them during the run.
    """
    by_key = {FindingKey.of(run_finding.finding): run_finding for run_finding in findings}
    rows = conn.execute(_REMEMBERED.with_for_update(), _remembered_at(project_id, at_us)).all()
    ids: dict[FindingKey, str] = {}
    before: dict[FindingKey, FindingState] = {}
    for row in rows:
        state = state_of(row)
        ids[state.key], before[state.key] = row.id, state
    run_findings = [run_finding.finding for run_finding in by_key.values()]
    after = advance(before, run_findings, at_us, rules, gone, standing)
    for key in {**before, **after}:
        now, was = after.get(key), before.get(key)
        if now is not was:
            into = None if now is None or now.merged_into is None else after[now.merged_into]
            merged_into = None if into is None else _id_of(project_id, ids, before, into)
            step = _Step(project_id, ids.get(key, ""), at_us, was, now, merged_into)
            _write(conn, step, by_key.get(key))


def _id_of(
    project_id: int,
    ids: Mapping[FindingKey, str],
    before: Mapping[FindingKey, FindingState],
    state: FindingState,
) -> str:
    """Return the id that a state has, or gets in this run."""
    was = before.get(state.key)
    if was is not None and was.pending_us == state.pending_us:
        return ids[state.key]
    return new_id(project_id, state.key, state.pending_us)


class _Step(NamedTuple):
    """The states of one key before and after a run."""

    project_id: int
    regression_id: str  #: empty where there is none yet
    at_us: int
    before: FindingState | None
    after: FindingState | None
    merged_into: str | None  #: the id of the finding that reports it


def _write(conn: Connection, step: _Step, run_finding: RunFinding | None) -> None:
    project_id, regression_id, at_us, before, after, merged_into = step
    what = transition(before, after)
    if after is None:
        assert before is not None
        after = replace(before, state=State.INACTIVE, runs=0, last_run_us=at_us)
    row = columns_of(after)
    if what is not None:
        row["merged_into"] = merged_into
    is_of_this_run = before is None or after.finding is not before.finding
    if run_finding is not None and is_of_this_run:
        row |= {
            "severity": run_finding.severity.value,
            "attribution": to_json(run_finding.attribution),
        }
    if what is not None and what.begins_to_fire:
        row |= {"acknowledged_us": None, "acknowledged_by": None}
    if before is None or before.pending_us != after.pending_us:
        regression_id = new_id(project_id, after.key, after.pending_us)
        row |= {"project_id": project_id, "id": regression_id, "told": 0}
        conn.execute(insert(regression), row)
    else:
        of = of_id(project_id, regression_id)
        conn.execute(update(regression).where(*BY_ID).values(row), of)
    if what is not None:
        why = "" if merged_into is None else f"into {merged_into}"
        act = Act(DETECTOR, why, at_us)
        add_change(conn, project_id, regression_id, what.value, act, version=after.version)


def _remembered_at(project_id: int, at_us: int) -> dict[str, int]:
    return {"of_project": project_id, "since_us": at_us - REMEMBERED_US}


def of_id(project_id: int, regression_id: str) -> dict[str, Any]:
    """Return the parameters of ``BY_ID`` and ``CHANGES_BY_ID``."""
    return {"of_project": project_id, "of_id": regression_id}


def add_change(
    conn: Connection,
    project_id: int,
    regression_id: str,
    what: str,
    act: Act,
    *,
    version: int,
    suspect: str | None = None,
) -> None:
    """Record a change; the row of the regression is locked by then."""
    last_seq = conn.execute(_LAST_SEQ, of_id(project_id, regression_id)).scalar_one()
    conn.execute(
        insert(regression_change),
        {
            "project_id": project_id,
            "regression_id": regression_id,
            "seq": last_seq + 1,
            "at_us": act.at_us,
            "what": what,
            "by": act.by,
            "why": act.why,
            "version": version,
            "suspect": suspect,
        },
    )


def new_id(project_id: int, key: FindingKey, pending_us: int) -> str:
    """Return an id like a ULID from what a finding is and when it was first found.

    48 bits of milliseconds and 80 of a hash: ids sort by time, and a repeated run gives the same
    id.
    """
    digest = hashlib.sha256(f"{project_id} {key.fingerprint} {key.verdict}".encode()).digest()
    hashed = int.from_bytes(digest[:10], "big")
    return _digits(pending_us // 1_000, _TIME_DIGITS) + _digits(hashed, _HASH_DIGITS)


def _digits(value: int, count: int) -> str:
    digits = ""
    for _ in range(count):
        value, digit = divmod(value, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


_STATE_COLUMNS = (
    "runs", "quiet_runs", "pending_us", "onset_us", "baseline_from_us", "baseline_to_us",
    "last_run_us", "firing_us", "resolved_us", "reopened", "version",
)  # fmt: skip
"""Columns that hold a member of ``FindingState`` as it is."""


def columns_of(state: FindingState) -> dict[str, Any]:
    """Return the columns of a finding's state."""
    finding = state.finding
    subject = finding.series.subject
    return {name: getattr(state, name) for name in _STATE_COLUMNS} | {
        "fingerprint": finding.fingerprint,
        "metric": subject.metric.value,
        "phase": subject.phase,
        "stage": subject.stage,
        "cause": subject.cause,
        "cohort": json.dumps(dict(finding.series.cohort), ensure_ascii=False),
        "verdict": state.verdict.value,
        "state": state.state.value,
        "finding": to_json(finding),
        "fired": None if state.fired is None else to_json(state.fired),
        "ended": None if state.ended is None else state.ended.value,
    }


def state_of(row: Row[*tuple[Any, ...]]) -> FindingState:
    """Read the state of a finding from a row."""
    return FindingState(
        verdict=Verdict(row.verdict),
        state=State(row.state),
        finding=finding_from_json(row.finding),
        fired=None if row.fired is None else finding_from_json(row.fired),
        ended=None if row.ended is None else Resolution(row.ended),
        is_noise=row.triage == Triage.NOISE.value,
        **{name: getattr(row, name) for name in _STATE_COLUMNS},
    )


def regression_of(row: Row[*tuple[Any, ...]]) -> Regression:
    """Read a regression from a row of ``SELECT``."""
    return Regression(
        project_id=row.project_id,
        project=row.project,
        id=row.id,
        standing=state_of(row),
        severity=row.severity,
        attribution=attribution_from_json(row.attribution),
        notified_version=row.told,
        acknowledged_us=row.acknowledged_us,
        acknowledged_by=row.acknowledged_by,
        triage=None if row.triage is None else Triage(row.triage),
        triage_by=row.triage_by,
        triage_us=row.triage_us,
        merged_into=row.merged_into,
        notified_us=row.notified_us,
        written_us=row.written_us,
        searched_us=row.searched_us,
    )


def to_json(value: Any) -> str:
    """Write a dataclass, or what is made of them, as JSON."""
    members = _with_text_for_infinity(msgspec.to_builtins(value))
    return json.dumps(members, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def finding_from_json(text: str) -> Finding:
    """Read a finding back."""
    return msgspec.json.decode(text, type=Finding, strict=False)


def attribution_from_json(text: str) -> Attribution:
    """Read an attribution back."""
    return msgspec.json.decode(text, type=Attribution, strict=False)


def _with_text_for_infinity(value: Any) -> Any:
    """Write numbers that JSON lacks as text, which readers take for numbers again."""
    if isinstance(value, dict):
        return {name: _with_text_for_infinity(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_for_infinity(member) for member in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
