"""The envelope that programs read."""

from dataclasses import replace
from typing import Any

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Impact, Metric
from ett_service.notifications.formats.generic import FORMAT, render
from ett_service.notifications.notice import Notice
from tests.builders.receivers.notices import (
    FINDING,
    FIRED,
    NOTICE,
    RESOLVED,
    named,
    of_metric,
    receiver,
)

GENERIC = receiver(FORMAT)


def _alert(notice: Notice) -> Any:
    return render(notice, GENERIC, 300)["alerts"][0]


def test_alerts_of_a_cluster_are_one_group() -> None:
    message = render(NOTICE, GENERIC, 300)
    assert message["groupKey"] == '{}:{alertname="EttRegressionActive", cluster="eu-1"}'
    assert message["groupLabels"] == {"alertname": "EttRegressionActive", "cluster": "eu-1"}


def test_what_fires_has_the_end_that_alertmanager_writes_for_none() -> None:
    assert _alert(NOTICE)["endsAt"] == "0001-01-01T00:00:00Z"
    lasting = replace(NOTICE, ends_us=FIRED + DAY_US)
    assert _alert(lasting)["endsAt"] == "0001-01-01T00:00:00Z"
    assert _alert(RESOLVED)["endsAt"] == "2025-11-19T22:00:00.000000Z"


def test_a_thread_keeps_its_fingerprint_and_its_version_grows() -> None:
    first, last = _alert(NOTICE), _alert(RESOLVED)
    assert first["fingerprint"] == last["fingerprint"]
    assert (first["ett"]["state_version"], last["ett"]["state_version"]) == (3, 4)


def test_a_change_is_reported_in_numbers() -> None:
    message = _alert(NOTICE)["ett"]
    assert message["before"] == {
        "median_seconds": 486.0,
        "p90_seconds": 702.0,
        "attempts": 140,
        "days": 28,
        "from": "2025-10-08T22:00:00.000000Z",
        "to": "2025-11-05T22:00:00.000000Z",
    }
    assert message["effect"] == {"ratio": 1.65, "ci95": [1.48, 1.84], "mean_ratio": 1.9}
    assert message["impact"] == {
        "gpu_hours_per_week": 212.0,
        "usd_per_week": 742.0,
        "ett_points": -0.6,
        "share_of_time_to_start_increase": 0.88,
    }
    assert message["decomposition"] == {"within": -0.58, "mix": -0.02}
    assert message["suspects"][0] == {
        "dimension": "image",
        "value": "trainer:2.14",
        "explains": 0.97,
        "attempts": 66,
        "first_seen_at": "2025-11-05T22:10:00.000000Z",
    }


def test_money_is_named_for_its_currency() -> None:
    impact = Impact(212.0, cost_per_week=650.0, currency="EUR")
    message = _alert(replace(NOTICE, finding=replace(FINDING, impact=impact)))["ett"]["impact"]
    assert message["eur_per_week"] == 650.0


def test_each_metric_has_values_of_its_own() -> None:
    rates = _alert(of_metric(Metric.FAILURES_PER_GPU_HOUR, 0.0, 0.002, float("inf")))["ett"]
    assert rates["after"]["failures_per_gpu_hour"] == 0.002
    assert rates["effect"]["ratio"] is None
    assert _alert(of_metric(Metric.ETT_RATIO, 0.9, 0.8, 0.9))["ett"]["before"]["ett_ratio"] == 0.9


def test_a_program_gets_names_as_they_are() -> None:
    name = "a<b>&\u202e\n`"
    alert = _alert(named(name))
    assert alert["labels"]["cluster"] == name
    assert alert["ett"]["dimensions"]["model"] == name
    assert "\u202e" not in alert["annotations"]["summary"]
