"""Gauges of the watch over the fleet, from rows as the evaluator and the outbox leave them."""

import json
from collections.abc import Mapping

import pytest
from sqlalchemy import Table, insert

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.clocks import Sla
from ett_service.metrics.gauges import ALL, Gauges, regressions
from ett_service.storage.engine.store import Store
from ett_service.storage.metrics.labels import ShownLabels
from ett_service.storage.schema import delivery, detection_run, receiver_health, regression
from tests.builders.clock import HOUR, MINUTE, NOON

SHOWN = ShownLabels(frozenset({"a"}), frozenset({"llm-70b"}))
SLA = Sla(detect_us=4 * DAY_US, acknowledge_us=HOUR, resolve_us=DAY_US)


def put(store: Store, into: Table, **values: object) -> None:
    filled: dict[str, object] = {}
    for column in into.columns:
        if not column.nullable:
            filled[column.name] = "" if column.type.python_type is str else 0
    store.write(lambda conn: conn.execute(insert(into).values(filled | values)).rowcount)


def put_regression(store: Store, project_id: int, ident: str, **values: object) -> None:
    cohort = values.pop("cohort", {"cluster": "a", "model": "llm-70b"})
    assert isinstance(cohort, Mapping)
    columns: dict[str, object] = {
        "project_id": project_id,
        "id": ident,
        "metric": "phase_seconds",
        "phase": "pt2_compile",
        "cohort": json.dumps(cohort),
        "verdict": "regression",
        "state": "firing",
        "severity": "high",
        "onset_us": NOON - 3 * DAY_US,
        "firing_us": NOON,
        "finding": json.dumps({"impact": {"gpu_hours_per_week": 2.0}}),
        "attribution": "{}",
    }
    put(store, regression, **columns | values)


def gauges(store: Store, now_us: int = NOON + 30 * MINUTE) -> Gauges:
    with store.reading() as conn:
        return regressions(conn, SHOWN, SLA, now_us)


def test_what_fires_is_reported_by_cohort_phase_and_severity_with_what_it_costs(
    store: Store, project_id: int
) -> None:
    put_regression(store, project_id, "one")
    put_regression(store, project_id, "whole", cohort={})
    put_regression(
        store, project_id, "folded", cohort={"cluster": "b", "model": "tiny"}, severity="low"
    )
    put_regression(store, project_id, "better", verdict="improvement")
    put_regression(store, project_id, "soon", state="pending", firing_us=None)

    samples = gauges(store)

    of_compile = ("pt2_compile", "phase_seconds")
    assert dict(samples["ett_regression_active"]) == {
        ("a", "llm-70b", *of_compile, "high"): 1,
        (ALL, ALL, *of_compile, "high"): 1,
        ("other", "other", *of_compile, "low"): 1,
    }
    assert dict(samples["ett_regression_lost_gpu_seconds"])["a", "llm-70b", *of_compile] == 7200
    assert dict(samples["ett_regressions"]) == {
        ("firing", "regression"): 3,
        ("firing", "improvement"): 1,
        ("pending", "regression"): 1,
    }


def test_unknown_accelerators_have_no_cost(store: Store, project_id: int) -> None:
    put_regression(store, project_id, "one", finding='{"impact": {"gpu_hours_per_week": null}}')

    assert gauges(store)["ett_regression_lost_gpu_seconds"] == []


def test_precision_is_what_people_found_real_of_what_they_judged_in_90_days(
    store: Store, project_id: int
) -> None:
    assert gauges(store)["ett_regression_precision_ratio"] == []
    for number, (triage, days) in enumerate(
        (("real", 1), ("real", 2), ("real", 3), ("noise", 4), ("expected", 5), ("noise", 100))
    ):
        put_regression(
            store, project_id, str(number), triage=triage, triage_us=NOON - days * DAY_US
        )

    assert gauges(store)["ett_regression_precision_ratio"] == [((), 0.75)]


@pytest.mark.parametrize(
    ("acknowledged_us", "resolved_us", "breached"),
    [
        (None, None, {"detect": 0, "acknowledge": 1, "resolve": 1}),
        (NOON + HOUR, None, {"detect": 0, "acknowledge": 0, "resolve": 1}),
        (None, NOON + HOUR, {"detect": 0, "acknowledge": 0, "resolve": 0}),
    ],
)
def test_clocks_are_held_to_what_the_settings_ask_for_while_they_run_too(
    store: Store,
    project_id: int,
    acknowledged_us: int | None,
    resolved_us: int | None,
    breached: dict[str, int],
) -> None:
    put_regression(
        store, project_id, "one", acknowledged_us=acknowledged_us, resolved_us=resolved_us
    )

    samples = gauges(store, NOON + 2 * DAY_US)

    assert dict(samples["ett_regression_sla_breached"]) == {(k,): v for k, v in breached.items()}
    assert samples["ett_regression_detect_seconds"] == [((), 3 * 86400)]
    assert samples["ett_regression_resolve_seconds"] == ([((), 3600)] if resolved_us else [])


def test_what_was_found_of_the_past_is_late_only_from_when_that_was_written(
    store: Store, project_id: int
) -> None:
    now_us = NOON + 10 * DAY_US
    put_regression(store, project_id, "one", onset_us=NOON - 9 * DAY_US)
    put(store, detection_run, project_id=project_id, at_us=NOON, made_us=now_us - HOUR // 2)

    samples = gauges(store, now_us)
    assert samples["ett_regression_detect_seconds"] == []
    assert dict(samples["ett_regression_sla_breached"]) == {
        ("detect",): 0,
        ("acknowledge",): 0,
        ("resolve",): 0,
    }


def test_the_project_that_is_furthest_behind_shows_how_far_the_search_is(
    store: Store, project_id: int
) -> None:
    assert "ett_detection_last_run_timestamp_seconds" not in gauges(store)
    for at_us, series in ((NOON - DAY_US, 5), (NOON, 7)):
        put(store, detection_run, project_id=project_id, at_us=at_us, took_us=10**6, series=series)

    samples = gauges(store)

    assert samples["ett_detection_last_run_timestamp_seconds"] == [((), NOON / 10**6)]
    assert (samples["ett_detection_duration_seconds"], samples["ett_detection_series"]) == (
        [((), 1)],
        [((), 7)],
    )


def test_deliveries_are_reported_by_receiver_and_result(store: Store, project_id: int) -> None:
    ended = {
        "a": ("sent", NOON),
        "b": ("dead", NOON),
        "c": ("sent", NOON - 2 * DAY_US),
        "e": ("repeating", NOON),
    }
    for ident, (done, done_us) in ended.items():
        put(store, delivery, id=ident, project_id=project_id, receiver="chat", done=done,
            done_us=done_us)  # fmt: skip
    put(store, delivery, id="d", project_id=project_id, receiver="pager", made_us=NOON)
    put(store, receiver_health, name="pager", disabled_us=NOON)

    samples = gauges(store)

    assert dict(samples["ett_webhook_recent_deliveries"]) == {
        ("chat", "sent"): 2,
        ("chat", "dead"): 1,
    }
    assert dict(samples["ett_webhook_waiting"]) == {("chat",): 0, ("pager",): 1}
    assert samples["ett_webhook_oldest_waiting_timestamp_seconds"] == [(("pager",), NOON / 10**6)]
    assert samples["ett_webhook_disabled_receivers"] == [((), 1)]
