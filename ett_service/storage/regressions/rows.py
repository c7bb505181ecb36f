"""Rows of regressions, and findings as JSON."""

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, bindparam, func, insert, select

from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Series,
    State,
    Triage,
    Verdict,
)
from ett_service.core.regressions.state import FindingKey, FindingState
from ett_service.storage.schema import detection_run, project, regression, regression_change


def encode(value: Any) -> str:
    """Write a dataclass, or what is made of them, as JSON."""
    told = _speakable(msgspec.to_builtins(value))
    return json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def finding(text: str) -> Finding:
    """Read a finding back."""
    return msgspec.json.decode(text, type=Finding, strict=False)


def attribution(text: str) -> Attribution:
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


def values(standing: FindingState) -> dict[str, Any]:
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
        "finding": encode(finding),
    }


def read(row: Row[*tuple[Any, ...]]) -> Regression:
    """Read one row of ``SELECT``."""
    return Regression(
        project_id=row.project_id,
        project=row.project,
        id=row.id,
        standing=standing(row),
        severity=row.severity,
        attribution=attribution(row.attribution),
        told=row.told,
        acknowledged_us=row.acknowledged_us,
        acknowledged_by=row.acknowledged_by,
        triage=None if row.triage is None else Triage(row.triage),
        triage_by=row.triage_by,
        triage_us=row.triage_us,
        written_us=row.written_us,
    )


def standing(row: Row[*tuple[Any, ...]]) -> FindingState:
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
        finding=finding(row.finding),
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
