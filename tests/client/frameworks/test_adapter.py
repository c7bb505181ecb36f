"""What the modules of all frameworks share, without any of them."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ett_service.client import guard
from ett_service.client.frameworks.adapter import (
    Afterwards,
    await_first_batch,
    begin,
    enter_loop_with_batch,
    is_wanted,
    measured,
)
from tests.builders.frameworks import story
from tests.builders.trainers import recording


class Trainer:
    """Stands for a framework's."""

    def save(self, path: str) -> str:
        return f"saved {path}"

    def break_down(self) -> None:
        raise ValueError("its own")


def test_a_method_is_measured_once_and_a_missing_one_is_said_to_be() -> None:
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
    with recording(tmp_path) as here:
        for _ in range(2):
            begin("accelerate", {}, {"save": "missing"})
        (named,) = here.events_of("heartbeat")
    assert named["attributes"] == {"source": "accelerate", "hooks": {"save": "missing"}}


def test_the_first_of_two_callbacks_waits_for_the_first_batch(tmp_path: Path) -> None:
    with recording(tmp_path) as here:
        assert [await_first_batch(), await_first_batch()] == [True, False]
        enter_loop_with_batch()
        enter_loop_with_batch()
        told = story(here.events)
    assert told == ["+get_first_batch_data", "-get_first_batch_data", "+train_loop"]


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
