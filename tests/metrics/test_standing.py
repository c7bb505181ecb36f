"""How the fleet stands, in the words of /metrics, is what the API says of the same window."""

from fractions import Fraction
from typing import Any

import pytest

from ett_service.core.intervals import DAY_US
from ett_service.core.words import Category, Owner
from ett_service.fleet import summary
from ett_service.fleet.economy import Economy, Price, Target
from ett_service.fleet.scope import Scope, Window
from ett_service.metrics import gauges as fleet_gauges
from ett_service.metrics.gauges import GaugeOptions, Gauges
from ett_service.storage.metrics import counters
from ett_service.storage.metrics import labels as counter_labels
from ett_service.storage.metrics.labels import ShownLabels
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.jobs import failing_job, wire_event, wire_span
from tests.builders.servers.application import Service

ECONOMY = Economy(
    prices=(Price("H100", 0, Fraction(2)),),
    targets=(Target({}, 0.9), Target({"model": "llm-70b"}, 0.8)),
)
SHOWN = ShownLabels(frozenset({"a"}), frozenset({"llm-70b", "vit"}))


@pytest.fixture
def filled_service(service: Service) -> Service:
    """Two cohorts of one cluster, the larger one with prices known."""
    service.ingest(failing_job(hardware="H100"))
    service.ingest(failing_job("small", model="vit", gpus=1, hardware="H100"))
    service.clock.now_us = NOON + 2 * HOUR
    return service


def windows(service: Service, shown: ShownLabels = SHOWN, economy: Economy = ECONOMY) -> Gauges:
    with service.store.reading() as conn:
        return fleet_gauges.windows(conn, shown, GaugeOptions(economy), service.clock.now_us)


def current(service: Service, **options: Any) -> Gauges:
    with service.store.reading() as conn:
        before = counters.read(conn)
        return fleet_gauges.current(
            conn, SHOWN, GaugeOptions(**options), service.clock.now_us, before
        )


def test_the_ratio_of_a_cohort_is_that_of_the_api(filled_service: Service) -> None:
    ratios = dict(windows(filled_service)["ett_window_ratio"])

    with filled_service.store.reading() as conn:
        window = Window(NOON + 2 * HOUR - 7 * DAY_US, NOON + 2 * HOUR)
        groups = summary.summary(conn, Scope(group_by=("model",)), window, ECONOMY).groups
    for group in groups:
        of_cohort = ("a", group.labels["model"], "7d")
        assert ratios[*of_cohort, "accelerators"] == group.totals.ett_ratio
        assert ratios[*of_cohort, "wall"] == group.totals.ett_ratio_wall
    assert len(ratios) == 2 * len(groups) * len(fleet_gauges.WINDOWS)


def test_cohorts_that_are_not_shown_are_added_up(filled_service: Service) -> None:
    ratios = windows(filled_service, ShownLabels(frozenset({"a"}), frozenset()))["ett_window_ratio"]
    assert {labels[:2] for labels, _ in ratios} == {("a", "other")}


def test_gpu_time_costs_what_the_prices_say(filled_service: Service) -> None:
    gauges = windows(filled_service)
    hours = {
        labels: us / 3600 for labels, us in gauges["ett_window_gpu_seconds"] if labels[1] == "1d"
    }
    effective = hours["a", "1d", Category.EFFECTIVE_TRAINING.value]
    assert effective == pytest.approx((8 + 8) * 34 / 60)
    costs = dict(gauges["ett_window_cost"])
    assert costs["a", "1d", Category.EFFECTIVE_TRAINING.value, "USD"] == pytest.approx(
        2 * effective
    )
    assert gauges["ett_gpu_hour_price"] == [(("H100", "USD"), 2.0)]


def test_waits_of_a_window_are_those_of_the_api_by_owner(filled_service: Service) -> None:
    of_window = dict(windows(filled_service)["ett_window_wait_weighted_seconds"])
    with filled_service.store.reading() as conn:
        window = Window(NOON + 2 * HOUR - 7 * DAY_US, NOON + 2 * HOUR)
        (group,) = summary.summary(conn, Scope(group_by=("cluster",)), window, ECONOMY).groups
    waited = {owner: group.totals.wait_weighted_us(owner) / 1e6 for owner in Owner}
    assert any(waited.values())
    assert {owner: of_window["a", "7d", owner.value] for owner in Owner} == waited


def test_without_a_price_nothing_costs_nothing(filled_service: Service) -> None:
    assert "ett_window_cost" not in windows(filled_service, economy=Economy())


def test_targets_are_reported_for_clusters_and_cohorts(filled_service: Service) -> None:
    gauges = windows(filled_service)
    assert gauges["ett_target_ratio"] == [(("a",), 0.9)]
    assert dict(gauges["ett_cohort_target_ratio"]) == {("a", "llm-70b"): 0.8, ("a", "vit"): 0.9}


def test_percentiles_are_of_the_attempts_that_left_the_phase(filled_service: Service) -> None:
    p99 = dict(windows(filled_service)["ett_phase_p99_seconds"])
    assert p99["a", "launcher_init"] == pytest.approx(300, rel=0.02)
    assert p99["a", "pt2_compile"] == pytest.approx(120, rel=0.02)


def opened(service: Service, job: str, minute: float) -> None:
    service.ingest(
        [
            wire_event("job", minute, job=job, model="vit", cluster="a"),
            wire_span("scheduling", minute - 1, minute, job=job),
            wire_event("phase_started", minute, job=job, phase="launcher_init"),
        ]
    )


def test_what_runs_and_what_was_not_heard_of_is_counted(service: Service) -> None:
    service.clock.now_us = NOON + 20 * MINUTE
    opened(service, "early", 10)
    opened(service, "late", 18)

    gauges = current(service)

    vit = ("a", "vit")
    assert gauges["ett_attempts_running"] == [(vit, 2)]
    assert gauges["ett_attempts_silent"] == [(vit, 1)]
    since = gauges["ett_oldest_open_phase_start_timestamp_seconds"]
    assert since == [((*vit, "launcher_init"), (NOON + 10 * MINUTE) / 1e6)]
    assert gauges["ett_cohort_last_event_timestamp_seconds"] == [(vit, (NOON + 18 * MINUTE) / 1e6)]


def test_no_job_is_named_but_those_that_were_asked_for(service: Service) -> None:
    service.clock.now_us = NOON + 20 * MINUTE
    opened(service, "llm-1", 10)
    opened(service, "secret", 10)

    assert current(service)["ett_job_ratio"] == []
    named = current(service, jobs=("llm-*",))["ett_job_ratio"]
    assert named == [(("research", "llm-1"), 0.0)]


def test_the_watermark_is_when_the_oldest_waiting_fact_came_in(service: Service) -> None:
    service.send(failing_job())
    came_in = service.clock.now_us
    service.clock.now_us += HOUR

    gauges = current(service)
    assert gauges["ett_jobs_waiting"] == [((), 1)]
    assert gauges["ett_aggregation_watermark_timestamp_seconds"] == [((), came_in / 1e6)]

    service.settle()
    watermark = current(service)["ett_aggregation_watermark_timestamp_seconds"]
    assert watermark == [((), service.clock.now_us / 1e6)]


def test_the_weight_of_a_word_is_its_gpu_time(filled_service: Service) -> None:
    with filled_service.store.reading() as conn:
        weights = fleet_gauges.weights(conn, filled_service.clock.now_us)
    assert weights[counter_labels.COHORT].keys() == {"llm-70b", "vit"}
    assert weights[counter_labels.CLUSTER]["a"] == sum(weights[counter_labels.COHORT].values())
