"""What no call expects: values, objects and modules that break whoever touches them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from ett_service.client import guard
from ett_service.client.current import current

ERRORS = (RuntimeError, AttributeError, KeyError, TypeError, ValueError, OSError, ZeroDivisionError)


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to do wrong."""

    name: str
    inject: Callable[[random.Random], object]
    is_counted: bool = True  #: something is dropped; else it is only a wrong order


class Silent(Exception):
    """Does not even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


class Broken:
    """Raises whatever is done with it."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise Silent if len(name) % 2 else ERRORS[len(name) % len(ERRORS)](name)

    def __int__(self, *_: object) -> int:
        raise Silent

    __bool__ = __eq__ = __lt__ = __gt__ = __index__ = __hash__ = __str__ = __int__  # type: ignore[assignment]
    __repr__ = __float__ = __len__ = __iter__ = __call__ = __enter__ = __exit__ = __int__  # type: ignore[assignment]


class Reentrant:
    """Calls the client from inside of the client, then raises."""

    def __index__(self) -> int:
        import ett_service as ett  # noqa: PLC0415 -- as a trainer's own object would have it

        with ett.phase("evaluation"), ett.checkpoint(3):
            ett.step(4)
        raise ValueError("not a number after all")

    __float__ = __int__ = __index__


def total() -> int:
    """Count what was dropped so far, and what no disk took."""
    recorder = current.recorder
    kept = (
        0 if recorder is None else len(recorder.spool.ring) + sum(recorder.spool.dropped.values())
    )
    return sum(guard.errors.values()) + kept


def no_integer(draw: random.Random) -> Any:
    """Draw what is no number of a step."""
    return draw.choice(
        (
            None, "seven", "7", b"7", -1, -(2**70), 2**53, 2**80, 1.5, float("nan"), float("inf"),
            1j, [], {}, object(), True, Broken(), Reentrant(), "x" * 1_000_000, int, lambda: 7,
        )
    )  # fmt: skip


def no_name(draw: random.Random) -> Any:
    """Draw what names no phase and no stage."""
    return draw.choice(
        (
            None, "", "\n", "\ud800", "x" * 1_000_000, b"evaluation", 7, float("nan"), [], {},
            ("evaluation",), object(), Broken(), f"loop \x00{draw.random()}", {"evaluation"},
        )
    )  # fmt: skip
