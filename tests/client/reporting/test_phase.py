"""Phases, stages and steps as the trainer reports them."""

import threading
from pathlib import Path
from typing import Any

import pytest

from ett_service.client import guard
from ett_service.client.current import current
from ett_service.client.reporting.checkpoint import checkpoint, restored
from ett_service.client.reporting.phase import phase, stage
from ett_service.client.session import end, flush, init, step
from tests.builders.trainers import recording


def shapes(events: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    short = {"phase_started": "+", "phase_ended": "-"}
    return [
        (short[event["type"]], event["phase"], *([event["stage"]] if "stage" in event else []))
        for event in events
        if event["type"] in short
    ]


def test_a_phase_is_two_edges_around_its_block(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        with phase("evaluation"):
            assert shapes(here.events) == [("+", "evaluation")]
        assert shapes(here.events) == [("+", "evaluation"), ("-", "evaluation")]


def test_a_phase_ends_when_its_block_breaks(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        with pytest.raises(KeyError), phase("evaluation"):
            raise KeyError
        assert shapes(here.events) == [("+", "evaluation"), ("-", "evaluation")]


def test_a_decorated_function_is_a_phase_whenever_recording_begins(tmp_path: Path) -> None:
    @phase("evaluation")
    def evaluate(x: int) -> int:
        return x + 1

    assert evaluate(1) == 2
    with recording(tmp_path) as here:
        assert evaluate(2) == 3
        assert len(shapes(here.events)) == 2


def test_a_phase_inside_itself_is_one(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        with phase("evaluation"), phase("evaluation"):
            pass
        assert shapes(here.events) == [("+", "evaluation"), ("-", "evaluation")]


def test_a_stage_belongs_to_the_phase_that_began_last(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        with phase("shutdown"), phase("checkpoint_blocking"), stage("save"):
            pass
        with phase("shutdown"), stage("teardown"):
            pass
        with stage("dynamo", phase="pt2_compile"):
            pass
        stages = [shape for shape in shapes(here.events) if len(shape) == 3]
    assert stages == [
        ("+", "checkpoint_blocking", "save"),
        ("-", "checkpoint_blocking", "save"),
        ("+", "shutdown", "teardown"),
        ("-", "shutdown", "teardown"),
        ("+", "pt2_compile", "dynamo"),
        ("-", "pt2_compile", "dynamo"),
    ]


def test_the_launch_phase_ends_where_the_trainer_ends_it(
    tmp_path: Path,
) -> None:
    with recording(tmp_path) as here:
        here.recorder.edge_at("phase_started", "launcher_init")
        here.recorder.launching = True
        with stage("device_init"):
            pass
        with phase("launcher_init"):
            pass
        with phase("shutdown"):
            pass
        edges = [shape for shape in shapes(here.events) if len(shape) == 2]
    assert edges == [
        ("+", "launcher_init"),
        ("-", "launcher_init"),
        ("+", "shutdown"),
        ("-", "shutdown"),
    ]


def test_an_unknown_phase_is_warned_of_and_not_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard._warned.clear()  # noqa: SLF001 -- another test may have had its one warning
    with recording(tmp_path) as here:
        for _ in range(2):
            with phase("trainloop"), stage("x", phase="nonsense"):
                pass
        assert here.events == []
    assert caplog.text.count("there is no phase 'trainloop'") == 1


def test_a_function_that_is_decorated_with_no_phase_at_all_still_runs(tmp_path: Path) -> None:
    undecorated: Any = (phase, stage)
    with recording(tmp_path) as here:
        before = guard.errors["misuse"]
        for decorate in undecorated:
            assert decorate(lambda x: x + 1)(2) == 3
        assert here.events == []
        assert guard.errors["misuse"] == before + 2


def test_arguments_that_no_call_has_cost_themselves_only(tmp_path: Path) -> None:
    untyped: Any = step
    with recording(tmp_path) as here:
        before = guard.errors["misuse"]
        untyped(7, "epoch 2", loss=0.5, samples=14)
        assert guard.errors["misuse"] == before + 1
        (reported,) = here.events_of("progress")
    assert (reported["step"], reported["samples"]) == (7, 14)


def test_a_stage_without_a_name_is_not_the_phase(tmp_path: Path) -> None:
    nameless: Any = None
    with recording(tmp_path) as here:
        with stage(nameless, phase="evaluation"):
            pass
        assert here.events == []


def test_steps_are_counted_in_memory_and_written_with_the_next_edge(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        for n in range(1, 1000):
            step(n, samples=2 * n, tokens=3 * n, flops=4.5 * n)
        assert [event["step"] for event in here.events_of("progress")] == [1]
        with phase("evaluation"):
            pass
        last = here.events_of("progress")[-1]
        assert (last["step"], last["samples"], last["tokens"], last["flops"]) == (
            999,
            1998,
            2997,
            4495.5,
        )
        assert last["mono_us"] <= here.events_of("phase_started")[0]["mono_us"]
        with phase("evaluation"):
            pass
        assert len(here.events_of("progress")) == 2


def test_a_step_is_written_after_ten_seconds_even_if_none_follows(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        step(1)
        step(2)
        assert current.steps.last is not None
        at, *rest = current.steps.last
        current.steps.last = (at - 10_000_000_000, *rest)  # type: ignore[assignment]
        here.recorder.tick()
        assert [event["step"] for event in here.events_of("progress")] == [2, 1]
        current.steps.due_ns = 0
        step(3)
        assert here.events_of("progress")[-1]["step"] == 3


def test_ranks_other_than_the_first_report_phases_and_no_steps(tmp_path: Path) -> None:
    with recording(tmp_path, rank=1) as here:
        step(1)
        with phase("evaluation"):
            step(2)
        assert here.events_of("progress") == []
        assert len(shapes(here.events)) == 2


def test_a_checkpoint_blocks_for_its_block_and_is_durable_when_it_ends(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        with checkpoint(10, size=123):
            assert shapes(here.events) == [("+", "checkpoint_blocking")]
            assert here.events_of("checkpoint_saved") == []
        (saved,) = here.events_of("checkpoint_saved")
    assert (saved["step"], saved["bytes"]) == (10, 123)
    assert saved["duration_seconds"] >= 0


def test_a_checkpoint_that_broke_was_never_saved(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        with pytest.raises(OSError, match="disk"), checkpoint(10):
            raise OSError("disk")
        assert here.events_of("checkpoint_saved") == []
        assert len(shapes(here.events)) == 2


def test_a_checkpoint_may_be_durable_later_and_is_recorded_once(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        with checkpoint(10) as saving:
            saving.later()
        assert here.events_of("checkpoint_saved") == []
        threads = [threading.Thread(target=saving.durable) for _ in range(2)]
        for thread in threads:
            thread.start()
            thread.join()
        assert [event["step"] for event in here.events_of("checkpoint_saved")] == [10]


def test_a_restored_checkpoint_is_recorded(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        restored(500)
        assert [event["step"] for event in here.events_of("checkpoint_restored")] == [500]


def test_a_step_that_is_no_number_costs_no_edge(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        step(1)
        step("seven")  # type: ignore[arg-type]
        with phase("evaluation"):
            pass
        assert len(shapes(here.events)) == 2
        assert [event["step"] for event in here.events_of("progress")] == [1]


def test_a_total_that_cannot_be_read_costs_no_edge(tmp_path: Path) -> None:
    class Elsewhere:
        """Stands for a tensor whose number lies on a device that failed."""

        def __float__(self) -> float:
            raise RuntimeError("device-side assert")

    unreadable: Any = Elsewhere()
    with recording(tmp_path) as here:
        step(1)
        step(2, flops=unreadable)
        with phase("evaluation"):
            pass
        assert len(shapes(here.events)) == 2


def test_nothing_a_trainer_passes_raises(tmp_path: Path) -> None:
    strange: Any = object()
    with recording(tmp_path):
        step(strange)
        with phase(strange), stage(strange, phase=strange), phase("evaluation"):
            step("seven")  # type: ignore[arg-type]
        with checkpoint(strange):
            pass
        with checkpoint(1) as saving:
            saving.durable_when(strange)
        restored(strange)
        step(3, flops=float("nan"))
        end(strange)
        end("nonsense")
        init(strange, labels={"x": strange})
        phase([])  # type: ignore[arg-type]
        with phase("evaluation"):
            pass


def test_without_a_recorder_every_call_does_nothing() -> None:
    assert current.recorder is None
    with phase("evaluation"), stage("x"), checkpoint(1):
        step(1)
    end()
    restored(1)
    assert flush(0) is False
