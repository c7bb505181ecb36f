"""What ``ett detect`` says, as JSON: named and in units as the API says it of regressions."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.core.regressions.finding import (
    Attribution,
    Cohort,
    Finding,
    Impact,
    Side,
    State,
    Subject,
    Unit,
)
from ett_service.detection.backtest import Backtest, Course
from ett_service.detection.completed import OpenPhase
from ett_service.detection.options import Power

Told: TypeAlias = dict[str, Any]


def told(
    project: str, runs_at: Sequence[int], found: Backtest, hanging: Iterable[OpenPhase]
) -> Told:
    """Say what the runs found in a project."""
    courses = sorted(found.courses, key=_by_time)
    return {
        "project": project,
        "from": rfc3339(runs_at[0]),
        "at": rfc3339(runs_at[-1]),
        "runs": len(runs_at),
        "series": found.last.series,
        "found": [_course(one) for one in courses],
        "open_phases": [_open(one) for one in hanging],
        "power": [_power(one) for one in found.last.power],
    }


def _by_time(course: Course) -> tuple[int, str, str]:
    return course.standing.pending_us, course.standing.verdict, course.standing.finding.fingerprint


def _course(course: Course) -> Told:
    standing, finding = course.standing, course.found.finding
    return {
        "fingerprint": finding.fingerprint,
        **_series(finding.series.subject, finding.series.cohort),
        "verdict": standing.verdict.value,
        "state": (State.INACTIVE if course.lapsed else standing.state).value,
        "severity": course.found.severity.value,
        **_effect(finding),
        "onset_at": rfc3339(standing.onset_us),
        "pending_at": rfc3339(standing.pending_us),
        "firing_at": _instant(standing.firing_us),
        "resolved_at": _instant(standing.resolved_us),
        "reopened": standing.reopened,
        "steps": [{"at": rfc3339(at), "what": what.value} for at, what in course.steps],
        "attribution": _attribution(course.found.attribution),
    }


def _effect(finding: Finding) -> Told:
    unit = finding.series.subject.metric.unit
    return {
        "unit": unit,
        "ratio": _finite(finding.ratio),
        "interval": _interval(finding),
        "before": _side(finding.before, unit),
        "after": _side(finding.after, unit),
        "p": finding.p,
        "q": finding.q,
        "gates": [
            {
                "name": one.name,
                "value": _finite(one.value),
                "limit": one.limit,
                "passed": one.passed,
            }
            for one in finding.gates
        ],
        "impact": _impact(finding.impact),
    }


def _series(subject: Subject, cohort: Cohort) -> Told:
    return {
        "metric": subject.metric.value,
        "phase": subject.phase or None,
        "stage": subject.stage or None,
        "cause": subject.cause or None,
        "cohort": dict(cohort),
    }


def _side(side: Side, unit: Unit) -> Told:
    scale = SECOND_US if unit == "seconds" else 1
    return {
        "n": side.n,
        "days": side.days,
        "median": side.median / scale,
        "p90": None if side.p90 is None else side.p90 / scale,
        "from": rfc3339(side.from_us),
        "to": rfc3339(side.to_us),
    }


def _impact(impact: Impact) -> Told:
    return {
        "gpu_hours_per_week": impact.gpu_hours_per_week,
        "ett_points": impact.ett_points,
        "cost_per_week": impact.cost_per_week,
        "currency": impact.currency or None,
    }


def _attribution(found: Attribution) -> Told:
    return {
        "phase_shares": dict(found.phase_shares),
        "cohort_shares": dict(found.cohort_shares),
        "suspects": [
            {"dimension": one.dimension, "value": one.value, "explains": one.explains}
            for one in found.suspects
        ],
        "markers": [
            {"id": one.id, "kind": one.kind, "title": one.title, "at": rfc3339(one.at_us)}
            for one in found.markers
        ],
        "examples": [{"job": job, "number": number} for job, number in found.examples],
        "within_points": found.within_points,
        "mix_points": found.mix_points,
    }


def _open(one: OpenPhase) -> Told:
    return {
        "cohort": dict(one.cohort),
        "phase": one.phase,
        "job": one.job,
        "number": one.number,
        "seconds": one.age_us / SECOND_US,
        "p99_seconds": None if one.p99_us is None else one.p99_us / SECOND_US,
        "stuck": one.stuck,
    }


def _power(one: Power) -> Told:
    return {
        **_series(one.subject, one.cohort),
        "recent": one.recent,
        "baseline": one.baseline,
        "smallest": one.smallest,
    }


def _interval(finding: Finding) -> Told | None:
    """Return both bounds; None where before is 0, for JSON has no word for what follows."""
    low, high = _finite(finding.low), _finite(finding.high)
    return None if low is None or high is None else {"low": low, "high": high}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _instant(us: int | None) -> str | None:
    return None if us is None else rfc3339(us)
