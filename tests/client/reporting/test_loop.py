"""When the training loop begins."""

import time
from pathlib import Path
from typing import Any

import pytest

from ett_service.client.reporting.loop import data, train_loop
from ett_service.client.reporting.phase import phase
from ett_service.client.session import step
from tests.builders.trainers import Recording, recording


def compiled(here: Recording) -> int:
    """Compile as torch's callbacks report it; return when it ended."""
    with phase("pt2_compile"):
        time.sleep(0.002)
    here.recorder.loop.compiled(here.recorder.now())
    return here.recorder.now()


def begin_of_loop(here: Recording) -> dict[str, Any]:
    (begin,) = [
        event for event in here.events_of("phase_started") if event["phase"] == "train_loop"
    ]
    return begin


def names(here: Recording, kind: str) -> list[str]:
    return [event["phase"] for event in here.events_of(kind)]


def test_where_no_compile_is_watched_the_loop_begins_at_its_entry(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        with train_loop():
            assert names(here, "phase_started") == ["train_loop"]
            step(1)
        assert names(here, "phase_ended") == ["train_loop"]


def test_the_loop_begins_at_the_end_of_the_last_compile_before_the_first_step(
    tmp_path: Path,
) -> None:
    with recording(tmp_path) as here:
        here.recorder.loop.watched = True
        with train_loop():
            entered = here.recorder.now()
            forward = compiled(here)
            backward = compiled(here)
            assert "train_loop" not in names(here, "phase_started")
            step(1)
            began = begin_of_loop(here)["mono_us"]
            assert entered < forward < began <= backward
            compiled(here)
            step(2)
            assert begin_of_loop(here)["mono_us"] == began
        progress = here.events_of("progress")[0]
        assert progress["mono_us"] >= began


def test_where_nothing_compiles_the_loop_begins_at_its_entry(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        here.recorder.loop.watched = True
        before = here.recorder.now()
        with train_loop():
            after = here.recorder.now()
            time.sleep(0.002)
            step(1)
        assert before <= begin_of_loop(here)["mono_us"] <= after


def test_a_compile_before_the_loop_does_not_move_its_begin(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        here.recorder.loop.watched = True
        compiled(here)
        entered = here.recorder.now()
        with train_loop():
            step(1)
        assert begin_of_loop(here)["mono_us"] >= entered


def test_before_its_first_step_a_loop_is_still_launching(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        here.recorder.loop.watched = True
        with pytest.raises(KeyError), train_loop():
            raise KeyError(compiled(here))
        assert names(here, "phase_started") == ["launcher_init", "pt2_compile"]
        assert names(here, "phase_ended") == ["pt2_compile"]


def test_the_launch_ends_where_the_loop_begins(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        here.recorder.loop.watched = True
        with train_loop():
            compiled(here)
            step(1)
        ended = next(e for e in here.events_of("phase_ended") if e["phase"] == "launcher_init")
        assert ended["mono_us"] == begin_of_loop(here)["mono_us"]


def test_a_loop_without_steps_begins_at_the_end_of_its_first_compile(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        here.recorder.loop.watched = True
        with train_loop():
            first = compiled(here)
            compiled(here)
        assert begin_of_loop(here)["mono_us"] <= first
        assert names(here, "phase_ended")[-1] == "train_loop"


def test_later_loops_begin_where_they_are_entered(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        here.recorder.loop.watched = True
        with train_loop():
            step(1)
        with train_loop():
            assert names(here, "phase_started").count("train_loop") == 2
            compiled(here)
            step(2)
        assert names(here, "phase_ended").count("train_loop") == 2
        assert [event["step"] for event in here.events_of("progress")] == [1, 2]


def test_a_loop_inside_itself_is_one(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        with train_loop(), train_loop():
            step(1)
        assert names(here, "phase_started") == ["train_loop"]
        assert names(here, "phase_ended") == ["train_loop"]


def test_a_loop_over_batches_ends_with_them_or_when_it_is_left(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        assert list(train_loop([1, 2, 3])) == [1, 2, 3]
        loop = iter(train_loop([1, 2, 3]))
        assert next(loop) == 1
        loop.close()  # type: ignore[attr-defined]
        assert names(here, "phase_ended").count("train_loop") == 2


def test_the_wait_for_the_first_batch_of_the_process_is_a_stage(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        assert list(data([1, 2])) == [1, 2]
        assert list(data([3])) == [3]
        stages = [event["stage"] for event in here.events_of("phase_started", "phase_ended")]
    assert stages == ["get_first_batch_data"] * 2


def test_what_a_loader_raises_reaches_the_trainer(tmp_path: Path) -> None:
    def broken() -> Any:
        yield 1
        raise RuntimeError("worker died")

    with recording(tmp_path), pytest.raises(RuntimeError, match="worker died"):
        list(train_loop(broken()))
