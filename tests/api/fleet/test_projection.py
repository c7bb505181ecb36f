"""Projections of ETT% over scales."""

import csv
import io
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from ett_service.fleet.economy import Economy, Price
from ett_service.storage.engine.store import Store
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import at, failing_job
from tests.builders.servers.application import Service, running

PATH = "/v1/fleet/projection"
DAY: dict[str, Any] = {"from": at(-720), "to": at(720)}
LLAMA_3: dict[str, Any] = {
    "failures_per_node_day": 419 / 54 / 2048, "save_seconds": 60, "restart_seconds": 600,
}  # fmt: skip

ESTIMATE_PATH = "/v1/estimate"
CLIMATE: dict[str, Any] = {"flops": 5.04e21, "accelerators": 64, "mfu": 0.42, "hardware": "A100"}


def test_inputs_are_measured_in_the_window(service: Service) -> None:
    service.clock.now_us += 10 * 3600 * 1_000_000
    service.ingest(failing_job())
    answer = service.get(PATH, failures="all", accelerators="8,16", **DAY)

    # One failure of one node in its 59 minutes; a save of a minute, a recovery of five.
    inputs = answer["inputs"]
    assert inputs["failures_per_node_day"]["value"] == pytest.approx(24 * 60 / 59)
    assert inputs["failures_per_node_day"]["n"] == 1
    assert (inputs["save_seconds"]["value"], inputs["save_seconds"]["n"]) == (60.0, 1)
    assert (inputs["restart_seconds"]["value"], inputs["restart_seconds"]["n"]) == (300.0, 1)
    assert inputs["missing"] == []
    first, second = answer["points"]
    assert first["mtbf_seconds"] == pytest.approx(59 * 60) == 2 * second["mtbf_seconds"]
    assert first["low"] < first["ett_ratio"] < first["high"]
    assert second["ett_ratio"] < first["ett_ratio"]


@ON_ONE_ENGINE
def test_what_is_given_needs_no_window(service: Service) -> None:
    answer = service.get(PATH, accelerators="16384", interval_seconds=1155.84, **LLAMA_3)

    (point,) = answer["points"]
    assert point["mtbf_seconds"] == pytest.approx(11_135.08, abs=0.01)
    assert round(point["published_ratio"], 3) == 0.850
    assert point["ett_ratio"] == pytest.approx(0.8525, abs=1e-4)
    assert point["published_error"] == pytest.approx(point["published_ratio"] - point["ett_ratio"])
    assert (point["low"], point["high"]) == (None, None)
    assert answer["inputs"]["save_seconds"] == {"value": 60.0, "n": None, "low": None, "high": None}


@ON_ONE_ENGINE
def test_scales_double_from_a_node_unless_they_are_named(service: Service) -> None:
    points = service.get(PATH, **LLAMA_3)["points"]

    assert [point["accelerators"] for point in points] == [8 * 2**step for step in range(15)]
    assert [point["ett_ratio"] for point in points] == sorted(
        (point["ett_ratio"] for point in points), reverse=True
    )


@ON_ONE_ENGINE
def test_a_window_without_jobs_names_the_missing_inputs(service: Service) -> None:
    answer = service.get(PATH, **DAY)

    assert answer["points"] == []
    assert answer["inputs"]["missing"] == [
        "failures_per_node_day",
        "save_seconds",
        "restart_seconds",
    ]


@ON_ONE_ENGINE
def test_without_failures_nothing_is_infinite(service: Service) -> None:
    (point,) = service.get(PATH, **{**LLAMA_3, "failures_per_node_day": 0}, accelerators="8")[
        "points"
    ]

    assert (point["mtbf_seconds"], point["interval_seconds"], point["ett_ratio"]) == (None, None, 1)


@ON_ONE_ENGINE
def test_a_projection_comes_as_a_file_too(service: Service) -> None:
    answer = service.client.get(
        PATH, params={**LLAMA_3, "accelerators": "8, 00000000064", "format": "csv"}
    )

    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["accelerators"] for row in rows] == ["8", "64"]


@ON_ONE_ENGINE
def test_a_bad_question_is_refused_by_name(service: Service) -> None:
    for name, value in (
        ("accelerators", "8,x"),
        ("accelerators", "0"),
        ("accelerators", ""),
        ("accelerators", "²"),
        ("accelerators", "9" * 900),
        ("accelerators", ",".join(["8"] * 101)),
        ("failures_per_node_day", "-1"),
        ("save_seconds", "nan"),
        ("restart_seconds", "inf"),
        ("interval_seconds", "0"),
        ("failures", "most"),
        ("group_by", "team"),
    ):
        problem = service.get(PATH, 422, **{name: value})
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/query/{name}"]


@pytest.fixture
def priced(store: Store) -> Iterator[Service]:
    """Return the application where an hour of an A100 costs 3.5."""
    with running(store, economy=Economy(prices=(Price("A100", 0, Fraction("3.5")),))) as service:
        yield service


@ON_ONE_ENGINE
def test_hours_and_money_of_a_planned_run(priced: Service) -> None:
    estimate = priced.get(ESTIMATE_PATH, **CLIMATE, discount=0.65, interval_seconds=1800)

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


@ON_ONE_ENGINE
def test_without_a_price_there_is_no_money(service: Service) -> None:
    estimate = service.get(ESTIMATE_PATH, **CLIMATE, discount=0.65, interval_seconds=1800)

    assert (estimate["on_demand"]["cost"], estimate["spot"]["cost"], estimate["spot"]["saved"]) == (
        None,
    ) * 3


@ON_ONE_ENGINE
def test_the_share_that_trains_may_be_that_of_a_cohort(service: Service) -> None:
    service.clock.now_us += 10 * 3600 * 1_000_000
    service.ingest(failing_job())
    estimate = service.get(ESTIMATE_PATH, **CLIMATE, measured=True, where="team:pretraining", **DAY)

    assert (estimate["ett_from"], estimate["measured_jobs"]) == ("measured", 1)
    assert estimate["ett_ratio"] == pytest.approx(34 / 62)
    given = service.get(ESTIMATE_PATH, **CLIMATE, measured=True, ett=0.9, **DAY)
    assert (given["ett_from"], given["measured_jobs"]) == ("given", None)
    nobody = service.get(ESTIMATE_PATH, 422, **CLIMATE, measured=True, where="team:none", **DAY)
    assert [fault["pointer"] for fault in nobody["errors"]] == ["/query/ett"]


@ON_ONE_ENGINE
def test_a_run_that_never_ends_has_no_number(priced: Service) -> None:
    estimate = priced.get(
        ESTIMATE_PATH,
        **CLIMATE,
        discount=0.5,
        interval_seconds=1e6,
        seconds_between_interruptions=1,
    )

    assert (estimate["spot"]["gpu_hours"], estimate["spot"]["cost"]) == (None, None)


@ON_ONE_ENGINE
def test_a_bad_estimate_is_refused_by_name(service: Service) -> None:
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
        problem = service.get(ESTIMATE_PATH, 422, **{**CLIMATE, **change})
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/query/{name}"]
    problem = service.get(ESTIMATE_PATH, 422, accelerators=8, mfu=0.4)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/query/flops"]
