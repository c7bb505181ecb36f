"""How this process ends, reported by the process itself.

An exception that leaves it and a code given to ``sys.exit`` are failures; Ctrl-C cancels. A
process that ends in any other orderly way without ``ett.end()`` is reported as completed, with that
said as the reason; a ``SystemExit`` raised by hand looks the same. What dies without a word
(SIGKILL, ``os._exit``) is reported by ``ett run``, by the next attempt, or by the server after a
silence.
"""

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn

from ett_service.client.guard import guarded, shown

ReportExit = Callable[[dict[str, Any]], None]

UNSAID = "the process exited normally without ett.end()"

_MESSAGE_LIMIT = 2000


class Exits:
    """Watches the exits of this process; ``tell`` gets the members of its ``attempt_ended``."""

    def __init__(self, tell: ReportExit, last: Callable[[], None]) -> None:
        self._tell = tell
        self._last = last
        self._pid = os.getpid()
        self._code: object = None
        self._is_interrupted = False
        self._excepthook = sys.excepthook
        self._exit = sys.exit

    def watch(self) -> None:
        """Chain to the hooks that are there."""
        sys.excepthook = self._on_exception
        sys.exit = self._on_exit_call
        atexit.register(self._on_exit)

    def belong_here(self) -> None:
        """Report on this process from now on, not on the one that it was forked from."""
        self._pid = os.getpid()
        self._code = None
        self._is_interrupted = False

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, where: TracebackType | None
    ) -> None:
        if os.getpid() == self._pid:
            self._is_interrupted = isinstance(error, KeyboardInterrupt)
            self._tell_of(error)
        self._excepthook(kind, error, where)

    @guarded(otherwise=None)
    def _tell_of(self, error: BaseException) -> None:
        self._tell(ending_of(error))

    def _on_exit_call(self, code: Any = None, /) -> NoReturn:
        # Nothing else tells: a SystemExit passes by every hook, and elsewhere ends a thread only.
        if threading.current_thread() is threading.main_thread():
            self._code = code
        self._exit(code)

    @guarded(otherwise=None)
    def _on_exit(self) -> None:
        if os.getpid() == self._pid:
            self._tell(ending_of_code(self._code))
        self._last()
        if self._is_interrupted:
            _die_of_the_interrupt()


def _die_of_the_interrupt() -> None:
    """Let Python end by SIGINT after Ctrl-C, as it would have without us.

    It notes that in a flag, which any code that is made of a string clears: named tuples are, and
    data classes, wherever the sending imports some.
    """
    with suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")  # noqa: S102 -- the one way to set that flag


def ending_of(error: BaseException) -> dict[str, Any]:
    """Return the end that an exception makes."""
    if isinstance(error, KeyboardInterrupt):
        return {"outcome": "cancelled", "reason": "KeyboardInterrupt"}
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    return {
        "outcome": "failed",
        "exception": name[:200],
        "message": shown(error, _MESSAGE_LIMIT) or None,
    }


def ending_of_code(code: object) -> dict[str, Any]:
    """Return the end that an argument of ``sys.exit`` makes, as Python reads it."""
    if code is None or code == 0:
        return {"outcome": "completed", "reason": UNSAID}
    if isinstance(code, int):
        return {"outcome": "failed", "exit_code": code & 0xFF}
    return {"outcome": "failed", "exit_code": 1, "message": shown(code, _MESSAGE_LIMIT)}
