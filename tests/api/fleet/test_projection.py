"""Projections of ETT% over scales."""

import csv
import io
from typing import Any

import pytest

from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import at, failing_job
from tests.builders.servers.application import Service

PATH = "/v1/fleet/projection"
DAY: dict[str, Any] = {"from": at(-720), "to": at(720)}
LLAMA_3: dict[str, Any] = {
    "failures_per_node_day": 419 / 54 / 2048, "save_seconds": 60, "restart_seconds": 600,
}  # fmt: skip


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
