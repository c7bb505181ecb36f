"""Alertmanager's webhook, version 4, with one object of ours in the alert: ``ett``."""

import json
import math
from typing import Any

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.core.regressions.finding import Impact, Metric, Side, Suspect
from ett_service.notifications.formats.alert import annotations, labels, summary
from ett_service.notifications.notice import Notice, Status
from ett_service.notifications.routing import Receiver
from ett_service.notifications.wording import exact

SCHEMA = "ett.regression/v1"
"""Grows with a change that a reader of the one before could not read."""

DETECTOR = ("stratified-rank", "1")
_GROUPED_BY = ("alertname", "cluster")
_NOT_ENDED = "0001-01-01T00:00:00Z"  # Go's zero time, as Alertmanager sends it


def body(notice: Notice, receiver: Receiver, most: int) -> dict[str, Any]:
    """Write the envelope around one alert."""
    own = labels(notice, most)
    group = {name: value for name, value in own.items() if name in _GROUPED_BY}
    return {
        "version": "4",
        "groupKey": f"{{}}:{{{_matchers(group)}}}",
        "truncatedAlerts": 0,
        "status": notice.status.value,
        "receiver": receiver.name,
        "groupLabels": group,
        "commonLabels": own,
        "commonAnnotations": annotations(notice, most),
        "externalURL": notice.public_url,
        "alerts": [_alert(notice, own, most)],
    }


def _alert(notice: Notice, own: dict[str, str], most: int) -> dict[str, Any]:
    ends = _NOT_ENDED
    if notice.status is Status.RESOLVED and notice.ends_us is not None:
        ends = rfc3339(notice.ends_us)
    return {
        "status": notice.status.value,
        "labels": own,
        "annotations": summary(notice, most),
        "startsAt": rfc3339(notice.starts_us),
        "endsAt": ends,
        "generatorURL": notice.link,
        "fingerprint": notice.fingerprint,
        "ett": _ett(notice, most),
    }


def _ett(notice: Notice, most: int) -> dict[str, Any]:
    finding, attribution = notice.finding, notice.attribution
    metric = finding.series.subject.metric
    name, version = DETECTOR
    return {
        "schema": SCHEMA,
        "id": notice.id,
        "state_version": notice.version,
        "test": notice.is_test,
        "verdict": finding.verdict.value,
        "project": exact(notice.project, most),
        "dimensions": {key: exact(value, most) for key, value in notice.cohort.items()},
        "onset_at": rfc3339(finding.onset_us),
        "detector": {
            "name": name,
            "version": version,
            "q": _number(finding.q),
            "p": _number(finding.p),
        },
        "before": _side(metric, finding.before),
        "after": _side(metric, finding.after),
        "effect": {
            "ratio": _number(finding.ratio),
            "ci95": [_number(finding.low), _number(finding.high)],
        },
        "impact": {
            **_impact(finding.impact),
            "share_of_time_to_start_increase": _number(
                attribution.phase_shares.get(finding.series.subject.phase)
            ),
        },
        "decomposition": {
            "within": _number(attribution.within_points),
            "mix": _number(attribution.mix_points),
        },
        "suspects": [_suspect(one, most) for one in attribution.suspects[:5]],
        "markers": [
            {
                "id": exact(one.id, most),
                "kind": one.kind,
                "title": exact(one.title, most),
                "at": rfc3339(one.at_us),
            }
            for one in attribution.markers[:3]
        ],
        "examples": [link for _, _, link in notice.examples if link],
        "example_attempts": [
            {"job": exact(job, most), "number": number} for job, number, _ in notice.examples
        ],
    }


def _side(metric: Metric, side: Side) -> dict[str, Any]:
    return {
        **_values(metric, side),
        "attempts": side.n,
        "days": side.days,
        "from": rfc3339(side.from_us),
        "to": rfc3339(side.to_us),
    }


def _values(metric: Metric, side: Side) -> dict[str, float | None]:
    if metric is Metric.ETT_RATIO:
        return {"ett_ratio": _number(side.median)}
    if metric is Metric.FAILURES_PER_GPU_HOUR:
        return {"failures_per_gpu_hour": _number(side.median)}
    p90 = None if side.p90 is None else side.p90 / SECOND_US
    return {"median_seconds": _number(side.median / SECOND_US), "p90_seconds": _number(p90)}


def _impact(impact: Impact) -> dict[str, Any]:
    told: dict[str, Any] = {"gpu_hours_per_week": _number(impact.gpu_hours_per_week)}
    if impact.cost_per_week is not None:
        told[f"{impact.currency.lower()}_per_week"] = _number(impact.cost_per_week)
    return {**told, "ett_points": _number(impact.ett_points)}


def _suspect(one: Suspect, most: int) -> dict[str, Any]:
    told = {
        "dimension": exact(one.dimension, most),
        "value": exact(one.value, most),
        "explains": _number(one.explains),
        "attempts": one.attempts,
    }
    if one.first_seen_us is None:
        return told
    return {**told, "first_seen_at": rfc3339(one.first_seen_us)}


def _number(value: float | None) -> float | None:
    """Return *value* to six digits, as more of them say nothing; None for what JSON cannot say."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def _matchers(group: dict[str, str]) -> str:
    return ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in group.items()
    )
