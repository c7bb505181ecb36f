"""Call everything that a framework calls of us with what breaks, and count what comes out.

Its arguments are the module of the framework and a number of calls.
"""

import importlib
import inspect
import logging
import os
import random
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import ett_service as ett
from ett_service.client import guard
from ett_service.client.current import current

ERRORS = (RuntimeError, AttributeError, KeyError, TypeError, ValueError, OSError, ZeroDivisionError)
DRAWN = random.Random(0)


class Broken:
    """Raises whatever is done with it."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise DRAWN.choice(ERRORS)(name)

    def __int__(self) -> int:
        raise DRAWN.choice(ERRORS)

    __bool__ = __eq__ = __lt__ = __gt__ = __index__ = __hash__ = __str__ = __int__  # type: ignore[assignment]


def calls_of(module: Any) -> list[tuple[Callable[..., Any], int]]:
    """Every method of the module's callbacks, with the number of its arguments."""
    classes = [each for each in vars(module).values() if _is_ours(each, module)]
    methods = [
        getattr(made, name)
        for made in (each() for each in classes)
        for name, method in vars(type(made)).items()
        if not name.startswith("_") and inspect.isfunction(method)
    ]
    return [(method, len(inspect.signature(method).parameters)) for method in methods]


def _is_ours(each: object, module: Any) -> bool:
    return (
        inspect.isclass(each)
        and each.__module__ == module.__name__
        and not each.__name__.startswith("_")
    )


def main(name: str, number: int) -> None:
    """Call with broken arguments, on a recorder that works and on one that does not."""
    logging.disable()
    ett.init()
    calls = calls_of(importlib.import_module(name))
    lines: Any = current.recorder.lines if current.recorder else None
    for n in range(number):
        if current.recorder is not None:
            current.recorder.lines = Broken() if n % 2 else lines  # type: ignore[assignment]
        method, count = DRAWN.choice(calls)
        method(*(Broken() for _ in range(count)))
    caught = sum(guard.errors.values())
    print(f"{name}: {number} calls, {caught} errors caught")  # noqa: T201 -- for who reads it
    os._exit(0 if caught else 3)


main(sys.argv[1], int(sys.argv[2]))
