"""What the modules of all frameworks share, without any of them."""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ett_service.client import guard
from ett_service.client.current import current
from ett_service.client.frameworks.adapter import Afterwards, Framework, is_wanted, measured
from ett_service.client.reporting.checkpoint import Checkpoint, report_restored
from ett_service.client.reporting.layers import entered_by, layer_of
from ett_service.client.reporting.loop import (
    await_first_batch,
    end_first_batch,
    enter_loop,
    is_first,
    leave_loop,
    step_from,
    train_loop,
)
from ett_service.client.reporting.phase import stage
from ett_service.client.session import step
from tests.builders.frameworks import sources, story
from tests.builders.trainers import recording


class Trainer:
    """Stands for a framework's."""

    def save(self, path: str) -> str:
        return f"saved {path}"

    def break_down(self) -> None:
        raise ValueError("its own")


def test_a_method_is_measured_once_and_a_missing_one_is_reported() -> None:
    calls: list[str] = []

    class Measured(Trainer):
        pass

    def around(_: Any, path: str) -> AbstractContextManager[Any]:
        calls.append(f"before {path}")
        return Afterwards(done=lambda: calls.append("done"))

    assert [measured(Measured, name, around) for name in ("save", "save", "load")] == [
        "ok", "ok", "missing",
    ]  # fmt: skip
    assert Measured().save("x") == "saved x"
    assert calls == ["before x", "done"]


def test_the_methods_own_errors_pass_and_ours_do_not() -> None:
    broken: list[str] = []

    class Measured(Trainer):
        pass

    def bad() -> None:
        broken.append("told")
        raise RuntimeError("ours")

    measured(Measured, "break_down", lambda *_: Afterwards(broke=bad))
    measured(Measured, "save", lambda *_: 1 / 0)  # type: ignore[arg-type]
    before = guard.errors["ZeroDivisionError"]
    with pytest.raises(ValueError, match="its own"):
        Measured().break_down()
    assert broken == ["told"]
    assert Measured().save("x") == "saved x"
    assert guard.errors["ZeroDivisionError"] == before + 1


def test_a_source_is_named_once_a_recording(tmp_path: Path) -> None:
    framework = Framework("accelerate")
    with recording(tmp_path) as here:
        for _ in range(2):
            framework.begin({}, {"save": "missing"})
        (named,) = here.events_of("heartbeat")
    assert named["attributes"] == {"source": "accelerate", "hooks": {"save": "missing"}}


def test_the_first_of_two_callbacks_waits_for_the_first_batch(tmp_path: Path) -> None:
    framework = Framework("lightning")
    with recording(tmp_path) as here:
        assert [framework.await_first_batch(), framework.await_first_batch()] == [True, False]
        framework.enter_loop_with_batch()
        framework.enter_loop_with_batch()
        events = story(here.events)
    assert events == ["+get_first_batch_data", "-get_first_batch_data", "+train_loop"]


TRAINER = Framework("lightning")


def _save(source: str | None) -> None:
    with Checkpoint(4, source=source):
        pass


def _wait(source: str | None) -> None:
    if is_first(source):
        await_first_batch(source)
        end_first_batch(source)


def _loop(source: str | None) -> None:
    if enter_loop(source):
        leave_loop(in_order=True, source=source)


def _stage(source: str | None) -> None:
    with entered_by(source, stage("staging", phase="checkpoint_blocking")):
        pass


def _step(source: str | None) -> None:
    current.steps.due_ns = 0
    if source is None:
        step(7)
    else:
        step_from(source, 7)


def _restore(source: str | None) -> None:
    report_restored(4, source=source)


KINDS: dict[str, tuple[Callable[[str | None], None], str]] = {
    "checkpoint": (_save, "checkpoint_saved"),
    "blocking": (_save, "phase_started"),
    "first batch": (_wait, "phase_started"),
    "loop": (_loop, "phase_started"),
    "restored": (_restore, "checkpoint_restored"),
    "step": (_step, "progress"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [*itertools.permutations(("auto", "lightning", None))])
def test_once_a_higher_layer_has_reported_a_kind_those_below_are_silent(
    kind: str, order: tuple[str | None, ...], tmp_path: Path
) -> None:
    report, event_type = KINDS[kind]
    with recording(tmp_path) as here:
        for source in order:
            report(source)
        reported = [
            event.get("attributes", {}).get("source") for event in here.events_of(event_type)
        ]
    layers = [layer_of(source) for source in order]
    assert reported == [
        source for n, source in enumerate(order) if layers[n] == max(layers[: n + 1])
    ]


def test_a_wait_that_a_hook_began_is_handed_over(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        for source in ("auto", "lightning", None):
            assert await_first_batch(source)
        for source in ("auto", "lightning", None):
            end_first_batch(source)
        edges = here.events_of("phase_started", "phase_ended")
    sources = [event.get("attributes", {}).get("source") for event in edges]
    assert sources == ["auto", "auto", "lightning", "lightning", None, None]


def test_stages_of_every_layer_name_their_source(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        for source in ("auto", "lightning", None):
            _stage(source)
        edges = here.events_of("phase_started", "phase_ended")
    sources = [event.get("attributes", {}).get("source") for event in edges]
    assert sources == ["auto", "auto", "lightning", "lightning", None, None]


def test_a_loop_of_the_script_is_not_left_by_a_framework_inside_it(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        with train_loop():
            TRAINER.enter_loop_with_batch()
            TRAINER.leave_loop(in_order=True)
            step(1)
            assert story(here.events_of("phase_started", "phase_ended")) == ["+train_loop"]
        assert story(here.events_of("phase_ended")) == ["-train_loop"]


def test_what_a_framework_reports_names_it(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        TRAINER.await_first_batch()
        TRAINER.restored(3)
        TRAINER.enter_loop_with_batch()
        TRAINER.step(4)
        with TRAINER.phase("evaluation"), TRAINER.checkpoint(4):
            TRAINER.blocked(1, 2)
        TRAINER.leave_loop(in_order=True)
        assert len(here.events) > 10
        assert sources(here.events) == {"lightning"}


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({}, False),
        ({"ETT_URL": "http://x"}, True),
        ({"ETT_SPOOL": "s"}, True),
        ({"ETT_URL": "http://x", "ETT_DISABLED": "1"}, False),
    ],
)
def test_the_environment_says_whether_entry_points_take_part(
    env: dict[str, str], wanted: bool
) -> None:
    assert is_wanted(env) is wanted


def test_what_is_recorded_already_is_wanted_whatever_the_environment(tmp_path: Path) -> None:
    with recording(tmp_path):
        assert is_wanted({})
    assert not is_wanted({})
