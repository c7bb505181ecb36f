"""Estimates of planned runs."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from ett_service.fleet.economy import Economy, Price
from ett_service.storage.engine.store import Store
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import at, failing_job
from tests.builders.servers.application import Service, running

PATH = "/v1/estimate"
DAY: dict[str, Any] = {"from": at(-720), "to": at(720)}
CLIMATE: dict[str, Any] = {"flops": 5.04e21, "accelerators": 64, "mfu": 0.42, "hardware": "A100"}

pytestmark = ON_ONE_ENGINE


@pytest.fixture
def priced(store: Store) -> Iterator[Service]:
    """Return the application where an hour of an A100 costs 3.5."""
    with running(store, economy=Economy(prices=(Price("A100", 0, Fraction("3.5")),))) as service:
        yield service


def test_hours_and_money_of_a_planned_run(priced: Service) -> None:
    estimate = priced.get(PATH, **CLIMATE, discount=0.65, interval_seconds=1800)

    assert (estimate["peak_teraflops"], estimate["price_per_gpu_hour"]) == (312.0, 3.5)
    assert (estimate["ett_ratio"], estimate["ett_from"], estimate["measured_jobs"]) == (
        1.0,
        "ideal",
        None,
    )
    assert estimate["on_demand"]["gpu_hours"] == pytest.approx(10_683.76, rel=1e-6)
    assert estimate["on_demand"]["wall_hours"] == pytest.approx(166.934, rel=1e-5)
    assert estimate["on_demand"]["cost"] == pytest.approx(37_393.16, rel=1e-6)
    spot = estimate["spot"]
    assert (spot["kept_ratio"], spot["seconds_between_interruptions"]) == (1.0, None)
    assert spot["cost"] == pytest.approx(13_087.61, rel=1e-6)
    assert spot["saved"] == pytest.approx(37_393.16 - 13_087.61, rel=1e-6)


def test_without_a_price_there_is_no_money(service: Service) -> None:
    estimate = service.get(PATH, **CLIMATE, discount=0.65, interval_seconds=1800)

    assert (estimate["on_demand"]["cost"], estimate["spot"]["cost"], estimate["spot"]["saved"]) == (
        None,
    ) * 3


def test_the_share_that_trains_may_be_that_of_a_cohort(service: Service) -> None:
    service.clock.now_us += 10 * 3600 * 1_000_000
    service.ingest(failing_job())
    estimate = service.get(PATH, **CLIMATE, measured=True, where="team:pretraining", **DAY)

    assert (estimate["ett_from"], estimate["measured_jobs"]) == ("measured", 1)
    assert estimate["ett_ratio"] == pytest.approx(34 / 62)
    given = service.get(PATH, **CLIMATE, measured=True, ett=0.9, **DAY)
    assert (given["ett_from"], given["measured_jobs"]) == ("given", None)
    nobody = service.get(PATH, 422, **CLIMATE, measured=True, where="team:none", **DAY)
    assert [fault["pointer"] for fault in nobody["errors"]] == ["/query/ett"]


def test_a_run_that_never_ends_has_no_number(priced: Service) -> None:
    estimate = priced.get(
        PATH, **CLIMATE, discount=0.5, interval_seconds=1e6, seconds_between_interruptions=1
    )

    assert (estimate["spot"]["gpu_hours"], estimate["spot"]["cost"]) == (None, None)


def test_a_bad_question_is_refused_by_name(service: Service) -> None:
    for change, name in (
        ({"mfu": 1.5}, "mfu"),
        ({"mfu": "nan"}, "mfu"),
        ({"flops": "inf"}, "flops"),
        ({"flops": 0}, "flops"),
        ({"accelerators": 0}, "accelerators"),
        ({"ett": 0}, "ett"),
        ({"ett": 1e-300}, "flops"),
        ({"peak_teraflops": 1e-300}, "flops"),
        ({"peak_teraflops": 5e-324, "mfu": 1e-13}, "mfu"),
        ({"discount": 2}, "discount"),
        ({"discount": 0.5}, "interval_seconds"),
        ({"hardware": "abacus"}, "peak_teraflops"),
        ({"hardware": "\x00"}, "hardware"),
        ({"tokens": -1}, "tokens"),
        ({"gpus": 8}, "gpus"),
    ):
        problem = service.get(PATH, 422, **{**CLIMATE, **change})
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/query/{name}"]
    problem = service.get(PATH, 422, accelerators=8, mfu=0.4)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/query/flops"]
