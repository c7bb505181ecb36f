"""When a process sends next, so that a server that comes back is not trampled down."""

import random
from collections.abc import Callable

from ett_service.client.sending.delivery import BLOCKED, MAX_BYTES, MAX_EVENTS, Fate, Verdict

PAUSE_SECONDS = 0.1
"""Between batches of a long backlog."""

_FIRST_WAIT = 5.0
_GROWTH = 4.0
_LONGEST_WAIT = 60.0
_BUSY_SPREAD = 0.5  #: of what a busy server asked for, and one second
_PROBE_SECONDS = 300.0
_PROBE_EVENTS = 20
_CATCH_UP_EVENTS = 100
_CATCH_UP_BYTES = 25_000  #: of so many events, about
_CATCH_UP_SECONDS = 400.0


class Pace:
    """When to send next, and how much at once. Instants are seconds of the caller's clock.

    A server that takes nothing is left alone for a while: full jitter from 5 s to 60 s.
    Thousands of others have waited for it as well. So the first batch after that is a small one,
    and the rest is spread evenly over as much time as it was away, up to 400 seconds.

    A busy server is another matter: it is there, takes what it can, and tells each when to come
    back. What waited for that goes out whole, as the server guards itself.
    """

    def __init__(self, draw: Callable[[float, float], float] = random.uniform) -> None:
        self.not_before = 0.0
        self.tries = 0  #: in a row that failed
        self._draw = draw
        self._longest_wait = _FIRST_WAIT
        self._failing_since: float | None = None
        self._spread_until = 0.0

    def events(self, now: float) -> int:
        """Return how many events the next batch may hold."""
        if self._failing_since is not None:
            return _PROBE_EVENTS
        return _CATCH_UP_EVENTS if now < self._spread_until else MAX_EVENTS

    def heed(self, verdict: Verdict, now: float, unsent: int) -> None:
        """Take note of what became of a batch; *unsent* counts the bytes that are left."""
        match verdict.fate:
            case Fate.SETTLED:
                wait = self._after_success(now, unsent)
            case Fate.BUSY:
                wait = self._while_busy(verdict.wait_seconds or 0.0)
            case _:
                wait = self._after_failure(verdict, now)
        self.not_before = now + wait

    def hurry(self) -> None:
        """Wait for nothing, and spread nothing any more."""
        self.not_before = self._spread_until = 0.0
        self._failing_since = None

    def _after_success(self, now: float, unsent: int) -> float:
        self.tries = 0
        self._longest_wait = _FIRST_WAIT
        if self._failing_since is not None:
            self._spread_until = now + min(now - self._failing_since, _CATCH_UP_SECONDS)
            self._failing_since = None
        if unsent and now < self._spread_until:
            batches = unsent // _CATCH_UP_BYTES + 1
            return self._draw(0.0, 2 * (self._spread_until - now) / (batches + 1))
        return PAUSE_SECONDS if unsent > MAX_BYTES else 0.0

    def _while_busy(self, wait_s: float) -> float:
        self.tries += 1
        return wait_s + self._draw(0.0, 1.0 + _BUSY_SPREAD * wait_s)

    def _after_failure(self, verdict: Verdict, now: float) -> float:
        if self._failing_since is None:
            self._failing_since = now
        if verdict.fate in BLOCKED:
            return _PROBE_SECONDS
        drawn = self._draw(0.0, self._longest_wait)
        self._longest_wait = min(self._longest_wait * _GROWTH, _LONGEST_WAIT)
        self.tries += 1
        # Never sooner than the server asked, and not everybody at the instant that it named.
        return drawn if verdict.wait_seconds is None else verdict.wait_seconds + drawn
