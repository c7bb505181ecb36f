"""Generic: Alertmanager's webhook, version 4, with one additional object in the alert, ``ett``."""

import json
import math
from typing import Any

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.core.regressions.finding import Impact, Metric, Side, Suspect
from ett_service.notifications.notice import Notice, Receiver, Secret, Status, WebhookFormat
from ett_service.notifications.wording import annotations, exact, labels, word

SCHEMA = "ett.regression/v1"
"""Changes when readers of the present version could not read the next."""

DETECTOR = ("stratified-rank", "1")
_GROUPED_BY = ("alertname", "cluster")
_NOT_ENDED = "0001-01-01T00:00:00Z"  # Go's zero time, as Alertmanager sends it


def render(notice: Notice, receiver: Receiver, most: int) -> dict[str, Any]:
    """Return the envelope around one alert."""
    common = labels(notice, most)
    group = {name: value for name, value in common.items() if name in _GROUPED_BY}
    matchers = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in group.items()
    )
    return {
        "version": "4",
        "groupKey": f"{{}}:{{{matchers}}}",
        "truncatedAlerts": 0,
        "status": notice.status.value,
        "receiver": receiver.name,
        "groupLabels": group,
        "commonLabels": common,
        "commonAnnotations": annotations(notice, most),
        "externalURL": notice.public_url,
        "alerts": [_alert(notice, common, most)],
    }


FORMAT = WebhookFormat(name="generic", render=render, place=0, secret=Secret.SIGNING_KEY)


def _alert(notice: Notice, common: dict[str, str], most: int) -> dict[str, Any]:
    ends = _NOT_ENDED
    if notice.status is Status.RESOLVED and notice.ends_us is not None:
        ends = rfc3339(notice.ends_us)
    return {
        "status": notice.status.value,
        "labels": common,
        "annotations": {"summary": word(notice, most).headline},
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
            "mean_ratio": _number(finding.mean_ratio),
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
        "suspects": [_suspect(suspect, most) for suspect in attribution.suspects[:5]],
        "markers": [
            {
                "id": exact(marker.id, most),
                "kind": marker.kind,
                "title": exact(marker.title, most),
                "at": rfc3339(marker.at_us),
            }
            for marker in attribution.markers[:3]
        ],
        "examples": [link for _, _, link in notice.examples if link],
        "example_attempts": [
            {"job": exact(job, most), "number": number} for job, number, _ in notice.examples
        ],
    }


def _side(metric: Metric, side: Side) -> dict[str, Any]:
    values: dict[str, float | None]
    if metric.unit != "seconds":
        values = {metric.value: _number(side.median)}
    else:
        p90 = None if side.p90 is None else side.p90 / SECOND_US
        values = {"median_seconds": _number(side.median / SECOND_US), "p90_seconds": _number(p90)}
    return {
        **values,
        "attempts": side.n,
        "days": side.days,
        "from": rfc3339(side.from_us),
        "to": rfc3339(side.to_us),
    }


def _impact(impact: Impact) -> dict[str, float | None]:
    cost = {}
    if impact.cost_per_week is not None:
        cost[f"{impact.currency.lower()}_per_week"] = _number(impact.cost_per_week)
    return {
        "gpu_hours_per_week": _number(impact.gpu_hours_per_week),
        **cost,
        "ett_points": _number(impact.ett_points),
    }


def _suspect(suspect: Suspect, most: int) -> dict[str, Any]:
    first_seen = {}
    if suspect.first_seen_us is not None:
        first_seen["first_seen_at"] = rfc3339(suspect.first_seen_us)
    return {
        "dimension": exact(suspect.dimension, most),
        "value": exact(suspect.value, most),
        "explains": _number(suspect.explains),
        "attempts": suspect.attempts,
        **first_seen,
    }


def _number(value: float | None) -> float | None:
    """Return *value* to six digits, as more of them say nothing; None for what JSON cannot say."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
