"""The promise that nothing here ever raises into the trainer, kept in one place."""

import functools
import logging
from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Else = TypeVar("Else")

errors: Counter[str] = Counter()
"""How often something went wrong in here, by what it was; sent along with the next batch."""

_log = logging.getLogger("ett_service")
_said: set[str] = set()


def warn_once(message: str) -> None:
    """Say something to whoever runs the trainer, the first time only."""
    if message not in _said:
        _said.add(message)
        _log.warning("ett: %s", message)


def failed(error: Exception) -> None:
    """Count what went wrong, and say it the first time."""
    kind = type(error).__name__
    errors[kind] += 1
    warn_once(f"training goes on, but a measurement was lost to {kind}: {error}")


def guarded(otherwise: Else) -> Callable[[Callable[P, R]], Callable[P, R | Else]]:
    """Make a function that returns *otherwise* where it would have raised."""

    def wrap(function: Callable[P, R]) -> Callable[P, R | Else]:
        @functools.wraps(function)
        def guarding(*args: P.args, **kwargs: P.kwargs) -> R | Else:
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 -- nothing raises into the trainer
                failed(error)
                return otherwise

        return guarding

    return wrap
