"""A thread of the worker outlives errors, wakes on request, and ends cleanly."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typing_extensions import override

from ett_service.worker.thread import PeriodicThread
from tests.builders.servers.waiting import PATIENCE_S, wait_for

LONG_SECONDS = 10 * PATIENCE_S


class Counting(PeriodicThread):
    """Counts its steps, of which the first ones may fail."""

    def __init__(
        self, pause_seconds: float = 0.0, failures: int = 0, retry_seconds: float = 0.0
    ) -> None:
        super().__init__(
            "counting",
            failure="A step failed.",
            event="step_failed",
            retry_seconds=retry_seconds,
        )
        self.pause_seconds = pause_seconds
        self.failures = failures
        self.steps = 0
        self.finished = threading.Event()

    @override
    def step(self) -> float:
        self.steps += 1
        if self.steps <= self.failures:
            raise ValueError("on purpose")
        return self.pause_seconds

    @override
    def finish(self) -> None:
        self.finished.set()


@contextmanager
def started(thread: Counting) -> Iterator[Counting]:
    """Run the thread until the end of the block."""
    thread.start()
    try:
        yield thread
    finally:
        thread.stop_soon()
        thread.join(PATIENCE_S)


def test_steps_repeat_until_the_thread_is_stopped() -> None:
    with started(Counting()) as thread:
        assert wait_for(lambda: thread.steps > 3 and thread.alive)
    assert not thread.alive
    assert thread.finished.is_set()


def test_each_failure_is_one_log_line_and_the_steps_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR), started(Counting(failures=2)) as thread:
        assert wait_for(lambda: thread.steps > 3)
    assert caplog.messages == ["A step failed.", "A step failed."]
    assert {vars(record)["event"] for record in caplog.records} == {"step_failed"}
    assert {record.name for record in caplog.records} == {__name__}


def test_a_thread_that_waits_is_woken_and_stopped_at_once() -> None:
    with started(Counting(pause_seconds=LONG_SECONDS)) as thread:
        assert wait_for(lambda: thread.steps == 1)
        thread.wake()
        assert wait_for(lambda: thread.steps == 2)
    assert not thread.alive


def test_a_thread_that_waits_after_a_failure_is_stopped_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.ERROR),
        started(Counting(failures=1, retry_seconds=LONG_SECONDS)) as thread,
    ):
        assert wait_for(lambda: bool(caplog.records))
    assert not thread.alive
    assert thread.steps == 1


def test_a_thread_that_is_stopped_before_it_begins_makes_no_step() -> None:
    thread = Counting()
    thread.stop_soon()
    thread.run()
    assert thread.steps == 0
    assert thread.finished.is_set()


def test_an_error_in_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Counting):
        @override
        def finish(self) -> None:
            raise ValueError("on purpose")

    thread = Failing()
    thread.stop_soon()
    with caplog.at_level(logging.ERROR):
        thread.run()
    assert caplog.messages == ["A step failed."]
