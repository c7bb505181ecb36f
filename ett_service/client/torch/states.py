"""The state of each hook, and the promise that a broken one falls silent."""

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ett_service.client.clock import CLOCK_ID
from ett_service.client.current import current
from ett_service.client.guard import Else, failed

P = ParamSpec("P")
R = TypeVar("R")

OK, WAITING, MISSING, ERROR = "ok", "waiting", "missing", "error"

states: dict[str, str] = {}
"""By the name of the hook; ``waiting`` is for an import, ``missing`` what this torch lacks."""

_LIMIT = 5
_errors: Counter[str] = Counter()


def body_of(hook: str, otherwise: Else) -> Callable[[Callable[P, R]], Callable[P, R | Else]]:
    """Make what *hook* does return *otherwise* where it would raise; after five times it ends.

    What it takes of the training thread is counted.
    """

    read, clock, me = time.clock_gettime_ns, CLOCK_ID, threading.get_ident

    def wrap(function: Callable[P, R]) -> Callable[P, R | Else]:
        @functools.wraps(function)
        def guarding(*args: P.args, **kwargs: P.kwargs) -> R | Else:
            if states.get(hook) == ERROR:
                return otherwise
            cost = current.cost  # as its begin() and end(), whose calls cost too much here
            before, began = cost.ns, read(clock)
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 -- nothing raises into the trainer
                _count(hook, error)
                return otherwise
            finally:
                if me() == cost.thread:
                    cost.ns = before + read(clock) - began

        return guarding

    return wrap


def _count(hook: str, error: Exception) -> None:
    _errors[hook] += 1
    if _errors[hook] >= _LIMIT:
        states[hook] = ERROR
    failed(error)
