"""The answer of ``ett detect`` as JSON, with the names and units of the API's regressions."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Impact,
    SeriesCohort,
    Side,
    State,
    Subject,
    Unit,
)
from ett_service.detection.observed.open_phases import OpenPhase
from ett_service.detection.run import Backtest, Course
from ett_service.detection.scan import Power

Members: TypeAlias = dict[str, Any]


def answer_of(
    project: str, runs_at: Sequence[int], replayed: Backtest, open_phases: Iterable[OpenPhase]
) -> Members:
    """Return what the runs found in a project."""
    courses = sorted(replayed.courses, key=_by_time)
    return {
        "project": project,
        "from": rfc3339(runs_at[0]),
        "at": rfc3339(runs_at[-1]),
        "runs": len(runs_at),
        "series": replayed.last.series,
        "found": [_course(course) for course in courses],
        "open_phases": [_open(phase) for phase in open_phases],
        "power": [_power(power) for power in replayed.last.power],
    }


def _by_time(course: Course) -> tuple[int, str, str]:
    return course.standing.pending_us, course.standing.verdict, course.standing.finding.fingerprint


def _course(course: Course) -> Members:
    standing, finding = course.standing, course.latest.finding
    return {
        "fingerprint": finding.fingerprint,
        **_series(finding.series.subject, finding.series.cohort),
        "verdict": standing.verdict.value,
        "state": (State.INACTIVE if course.lapsed else standing.state).value,
        "severity": course.latest.severity.value,
        **_effect(finding),
        "onset_at": rfc3339(standing.onset_us),
        "pending_at": rfc3339(standing.pending_us),
        "firing_at": _instant(standing.firing_us),
        "resolved_at": _instant(standing.resolved_us),
        "reopened": standing.reopened,
        "steps": [{"at": rfc3339(at), "what": what.value} for at, what in course.steps],
        "attribution": _attribution(course.latest.attribution),
    }


def _effect(finding: Finding) -> Members:
    unit = finding.series.subject.metric.unit
    return {
        "unit": unit,
        "ratio": _finite(finding.ratio),
        "interval": _interval(finding),
        "mean_ratio": _finite(finding.mean_ratio),
        "before": _side(finding.before, unit),
        "after": _side(finding.after, unit),
        "p": finding.p,
        "q": finding.q,
        "gates": [
            {
                "name": gate.name,
                "value": _finite(gate.value),
                "limit": gate.limit,
                "passed": gate.passed,
            }
            for gate in finding.gates
        ],
        "impact": _impact(finding.impact),
    }


def _series(subject: Subject, cohort: SeriesCohort) -> Members:
    return {
        "metric": subject.metric.value,
        "phase": subject.phase or None,
        "stage": subject.stage or None,
        "cause": subject.cause or None,
        "cohort": dict(cohort),
    }


def _side(side: Side, unit: Unit) -> Members:
    scale = SECOND_US if unit == "seconds" else 1
    return {
        "n": side.n,
        "days": side.days,
        "median": side.median / scale,
        "p90": None if side.p90 is None else side.p90 / scale,
        "from": rfc3339(side.from_us),
        "to": rfc3339(side.to_us),
    }


def _impact(impact: Impact) -> Members:
    return {
        "gpu_hours_per_week": impact.gpu_hours_per_week,
        "ett_points": impact.ett_points,
        "cost_per_week": impact.cost_per_week,
        "currency": impact.currency or None,
    }


def _attribution(attribution: Attribution) -> Members:
    return {
        "phase_shares": dict(attribution.phase_shares),
        "cohort_shares": dict(attribution.cohort_shares),
        "suspects": [
            {"dimension": suspect.dimension, "value": suspect.value, "explains": suspect.explains}
            for suspect in attribution.suspects
        ],
        "markers": [
            {
                "id": marker.id,
                "kind": marker.kind,
                "title": marker.title,
                "at": rfc3339(marker.at_us),
            }
            for marker in attribution.markers
        ],
        "examples": [{"job": job, "number": number} for job, number in attribution.examples],
        "within_points": attribution.within_points,
        "mix_points": attribution.mix_points,
    }


def _open(phase: OpenPhase) -> Members:
    return {
        "cohort": dict(phase.cohort),
        "phase": phase.phase,
        "job": phase.job,
        "number": phase.number,
        "seconds": phase.age_us / SECOND_US,
        "p99_seconds": None if phase.p99_us is None else phase.p99_us / SECOND_US,
        "stuck": phase.stuck,
    }


def _power(power: Power) -> Members:
    return {
        **_series(power.subject, power.cohort),
        "recent": power.recent,
        "baseline": power.baseline,
        "smallest": power.smallest,
    }


def _interval(finding: Finding) -> Members | None:
    """Return both bounds; None where the level before is 0, as JSON has no infinity."""
    low, high = _finite(finding.low), _finite(finding.high)
    return None if low is None or high is None else {"low": low, "high": high}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _instant(us: int | None) -> str | None:
    return None if us is None else rfc3339(us)
