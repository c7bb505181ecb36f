"""The promise that nothing here ever raises into the trainer, kept in one place."""

import functools
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Else = TypeVar("Else")

errors: Counter[str] = Counter()
"""How often something went wrong in here, by what it was; sent along with the next batch."""

_log = logging.getLogger("ett_service")
_warned: set[str] = set()

_LONGEST = 200


def warn_once(message: str, *, about: str = "") -> None:
    """Say something to whoever runs the trainer, the first time only.

    What it is *about* tells whether it was said before, else its own words do.
    """
    if _warned.isdisjoint((about or message, message)):
        _warned.update((about or message, message))
        with suppress(Exception):  # a handler of the trainer's may raise
            _log.warning("ett: %s", message)


def failed(error: Exception) -> None:
    """Count what went wrong, and say it the first time that it does so in this place."""
    kind = type(error).__name__
    errors[kind] += 1
    where = _place(error)
    warn_once(
        f"training goes on, but a measurement was lost to {kind}: {shown(error)}",
        about=f"{kind} {where}",
    )


def misused(mistake: str, value: object, advice: str = "") -> None:
    """Count what was passed wrongly and is dropped, and say it at the first such *mistake*."""
    errors["misuse"] += 1
    text = shown(repr(value) if isinstance(value, str) else value)
    warn_once(f"{mistake} {text}{advice}", about=mistake)


def surplus(call: str, rest: Sequence[object], unknown: Mapping[str, object]) -> None:
    """Count the arguments that a call does not have and that are dropped."""
    if rest or unknown:
        misused(f"{call} does not take", ", ".join([*map(shown, rest), *unknown]))


def shown(value: object, longest: int = _LONGEST) -> str:
    """Return a value as text of about *longest* characters at most, whatever it is."""
    try:
        text = str(value) if isinstance(value, str | BaseException) else repr(value)
    except Exception:  # noqa: BLE001 -- text of others raises what it likes
        text = f"<{type(value).__name__}>"
    short = text if len(text) <= longest else f"{text[:longest]}..."
    return short.encode("utf-8", "backslashreplace").decode()


def _place(error: Exception) -> str:
    """Name the innermost line that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


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
