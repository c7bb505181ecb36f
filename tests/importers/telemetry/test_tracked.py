"""What a tracker's points say of the loop."""

from ett_service.importers.telemetry.tracked import Point, TrackedRun, facts_of
from tests.builders.clock import instant

S = 1_000_000
COMPLETED = {"outcome": "completed"}


def edges(run: TrackedRun) -> dict[str, int]:
    return {
        fact.event["type"]: instant(fact.event["at"]) // S
        for fact in facts_of(run, "llm")
        if fact.event["type"].startswith("phase")
    }


def points(*seconds: int) -> list[Point]:
    return [Point(second * S, place) for place, second in enumerate(seconds)]


def test_a_loop_begins_an_interval_before_its_first_point() -> None:
    run = TrackedRun("r", 0, 500 * S, COMPLETED, points(100, 120, 140))
    assert edges(run) == {"phase_started": 80, "phase_ended": 160}


def test_and_lies_in_its_run() -> None:
    run = TrackedRun("r", 90 * S, 145 * S, COMPLETED, points(100, 120, 140))
    assert edges(run) == {"phase_started": 90, "phase_ended": 145}


def test_a_run_that_failed_or_still_runs_has_no_end_of_its_loop() -> None:
    for ending in ({}, {"outcome": "failed"}):
        run = TrackedRun("r", 0, 500 * S if ending else None, ending, points(100, 120))
        assert edges(run) == {"phase_started": 80}


def test_one_point_makes_no_loop() -> None:
    assert edges(TrackedRun("r", 0, 500 * S, COMPLETED, points(100))) == {}


def test_points_before_the_run_are_none_of_its() -> None:
    run = TrackedRun("r", 50 * S, None, {}, points(10, 60, 70))
    steps = [f.event["step"] for f in facts_of(run, "llm") if f.event["type"] == "progress"]
    assert steps == [1, 2]
