"""The loop counts whole steps, saves them, and ends where its tape does."""

import pytest

from ett_service.demo.calendar import HOUR, MINUTE, Draws, Tape
from ett_service.demo.fleet import Planted, checkpoint_every_us
from ett_service.demo.training import Loop, Trained
from tests.demo.conftest import END_US
from tests.demo.test_training import ALMANAC, BEGIN, job


def trained(until: int, step: int = 0) -> tuple[Trained, Tape]:
    """Train a long job up to an instant."""
    tape = Tape("j", until)
    loop = Loop(tape, Draws(7, "a loop"), Planted(ALMANAC), job())
    return loop.run(BEGIN, step), tape


def test_a_loop_that_is_cut_off_reports_its_last_whole_step() -> None:
    until = BEGIN + 10 * HOUR + 7 * MINUTE
    state, tape = trained(until)
    assert 0 <= until - state.at < 2 * job().step_us
    progress = [event["step"] for event in tape.events if event["type"] == "progress"]
    assert progress == sorted(progress)
    assert progress[0] == 1
    assert progress[-1] == state.step
    saved = [event["step"] for event in tape.events if event["type"] == "checkpoint_saved"]
    assert saved[-1] == state.durable < state.step
    assert "phase_ended" not in {event["type"] for event in tape.events}


def test_a_loop_that_reaches_its_last_step_ends() -> None:
    last = job().steps
    state, tape = trained(END_US, step=last - 1000)
    assert state.step == last
    assert tape.events[-1]["type"] == "phase_ended"


def test_a_loop_that_is_never_reached_has_no_events() -> None:
    state, tape = trained(BEGIN - 1, step=40)
    assert (state.step, state.durable, state.in_loop) == (40, 40, False)
    assert tape.events == []


@pytest.mark.parametrize(("gpus", "minutes"), [(8, 120), (256, 75), (4096, 30)])
def test_larger_jobs_save_more_often(gpus: int, minutes: int) -> None:
    assert checkpoint_every_us(gpus) == minutes * MINUTE
