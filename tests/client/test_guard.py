"""What is counted and what is logged, where something goes wrong."""

import logging
from collections.abc import Iterator

import pytest

from ett_service.client import guard


class Mute(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.fixture(autouse=True)
def _no_warning_yet() -> Iterator[None]:
    warned = set(guard._warned)  # noqa: SLF001 -- another test may have had its one warning
    guard._warned.clear()  # noqa: SLF001 -- likewise
    yield
    guard._warned.clear()  # noqa: SLF001 -- likewise
    guard._warned.update(warned)  # noqa: SLF001 -- likewise


@guard.guarded(otherwise=None)
def broken(error: Exception) -> None:
    raise error


def test_errors_of_one_place_are_all_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = guard.errors["KeyError"]
    for n in range(5):
        broken(KeyError(n))
    assert guard.errors["KeyError"] == before + 5
    assert len(caplog.messages) == 1
    broken(ValueError("another"))
    assert len(caplog.messages) == 2


def test_a_mistake_is_logged_once_whatever_was_passed(caplog: pytest.LogCaptureFixture) -> None:
    before = guard.errors["misuse"]
    for name in ("a", "b", "c"):
        guard.misused("there is no phase", name, "; the phases are x, y")
    guard.surplus("step()", (), {})
    assert guard.errors["misuse"] == before + 3
    assert caplog.messages == ["ett: there is no phase 'a'; the phases are x, y"]


def test_what_cannot_say_what_it_is_is_named_by_its_type(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken(Mute())
    assert caplog.messages[0].endswith("lost to Mute: <Mute>")
    assert guard.shown("\ud800") == "\\ud800"
    assert guard.shown("x" * 1_000_000) == "x" * 200 + "..."


def test_a_log_that_raises_is_no_concern_of_the_trainer() -> None:
    class Full(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError(record.getMessage())

    handler = Full()
    logging.getLogger("ett_service").addHandler(handler)
    try:
        broken(KeyError("x"))
    finally:
        logging.getLogger("ett_service").removeHandler(handler)
