"""Sending what dead processes left in their spools."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ett_service.client.sending.backlog import Backlog, adopted
from ett_service.client.sending.courier import Courier, Tally
from ett_service.client.sending.delivery import BLOCKED, Fate, Target, Verdict
from ett_service.client.sending.pace import Pace

_AT_ONCE = 4
"""Spools, each over a connection of its own: the server is at work while others are read."""

_EXCHANGE_SECONDS = 60.0
"""A server that folds large jobs may let a batch wait; nobody's training waits with it."""

_MOST_AWAY = 8
"""Spools in a row of which nothing arrived: the server is away, and not one connection."""

_SAY_SECONDS = 10.0
"""Of waits that follow one another, four at a time, one in so long is reported."""


def _quiet(_: object) -> None:
    """Report nothing."""


@dataclass(slots=True)
class Shipment:
    """What became of some spools."""

    tally: Tally = field(default_factory=Tally)
    spools: int = 0  #: sent whole
    in_use: int = 0  #: their processes live and send them
    left: int = 0  #: not sent, or not whole
    stopped_by: Verdict | None = None  #: why the first that was left is


def ship(
    directories: Iterable[Path],
    target: Target,
    *,
    seconds: float,
    patience_s: float = 0.0,
    progress: Callable[[Shipment], None] = _quiet,
    say: Callable[[str], None] = _quiet,
    pace: Callable[[], Pace] = Pace,
) -> Shipment:
    """Send the spools that nobody owns, for about *seconds*; stop at a server that takes nothing.

    After a broken exchange a spool is tried again, for *patience_s* seconds since the server last
    took something; then it is left, and the others are sent. A server that names when to come back
    is waited for within *seconds*. *say* gets a sentence on what is waited for.

    Raises ``OSError`` where a spool cannot be read or removed.
    """
    now = time.monotonic()
    shipping = _Shipping(target, now + seconds, patience_s, progress, say, pace, now)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        shipped = [pool.submit(shipping.ship, directory) for directory in directories]
        try:
            for each in shipped:
                each.result()
        except BaseException:  # raised again: Ctrl-C, too, must not wait for what has not begun
            shipping.deadline = 0.0
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return shipping.shipment


_LOOK_SECONDS = 0.1  #: whoever presses Ctrl-C does not wait for longer


@dataclass
class _Shipping:
    """Sends spools from several threads."""

    target: Target
    deadline: float  #: on the monotonic clock
    patience_s: float
    progress: Callable[[Shipment], None]
    say: Callable[[str], None]
    new_pace: Callable[[], Pace]
    arrived_at: float  #: when the server last took something of any spool
    shipment: Shipment = field(default_factory=Shipment)
    _said_at: float = -_SAY_SECONDS
    _away: int = 0  #: spools in a row of which nothing arrived
    _is_over: bool = False
    _adding: threading.Lock = field(default_factory=threading.Lock)

    def ship(self, directory: Path) -> None:
        """Send one spool, unless another was stopped. Raises ``OSError``."""
        if self._is_over:
            self._add(left=1)
            return
        with adopted(directory) as backlog:
            if backlog is None:
                self._add(in_use=(directory / "owner.json").exists())
                return
            verdict = self._carry(backlog)
            if verdict.fate is Fate.SETTLED:
                backlog.discard()
                self._add(spools=1)
            else:
                self._add(left=1, stopped_by=verdict)

    def _carry(self, backlog: Backlog) -> Verdict:
        arrived_at = now = time.monotonic()
        seconds = max(1.0, min(self.deadline - now, _EXCHANGE_SECONDS))
        courier = Courier(self.target, backlog, timeout=seconds)
        pace = self.new_pace()
        while now < self.deadline:
            verdict = courier.carry_one(pace.events(now))
            tally, courier.tally = courier.tally, Tally()
            self._add(tally=tally)
            if verdict is None:
                return Verdict(Fate.SETTLED)
            now = time.monotonic()
            if verdict.fate is Fate.SETTLED:
                arrived_at, pace = now, self.new_pace()  # nothing is spread: no fleet comes with us
                continue
            pace.heed(verdict, now, 0)
            if pace.not_before > self._latest_try(verdict, arrived_at):
                return verdict
            self._say_wait(verdict, now, pace.not_before - now)
            self._wait_until(pace.not_before)
            now = time.monotonic()
        return Verdict(Fate.LATER, reason="the time for sending has run out")

    def _latest_try(self, verdict: Verdict, arrived_at: float) -> float:
        """Return until when a spool, of which something last arrived then, is tried again."""
        if verdict.fate is Fate.BUSY:
            return self.deadline
        if verdict.fate is Fate.LATER:
            return min(arrived_at, self.arrived_at) + self.patience_s
        return 0.0

    def _say_wait(self, verdict: Verdict, now: float, wait_s: float) -> None:
        with self._adding:
            if now - self._said_at >= _SAY_SECONDS:
                self._said_at = now
                self.say(f"{verdict.reason}; trying again in {wait_s:.0f} s")

    def _wait_until(self, instant: float) -> None:
        while time.monotonic() < min(instant, self.deadline):
            time.sleep(_LOOK_SECONDS)

    def _add(
        self,
        tally: Tally | None = None,
        *,
        spools: int = 0,
        in_use: int = 0,
        left: int = 0,
        stopped_by: Verdict | None = None,
    ) -> None:
        with self._adding:
            self._judge(stopped_by, has_arrived=bool(spools or (tally and tally.settled)))
            shipment = self.shipment
            shipment.tally += tally or Tally()
            shipment.spools += spools
            shipment.in_use += in_use
            shipment.left += left
            shipment.stopped_by = shipment.stopped_by or stopped_by
            self.progress(shipment)

    def _judge(self, stopped_by: Verdict | None, *, has_arrived: bool) -> None:
        """Give up at a server that takes nothing from us, or is away for all."""
        if has_arrived:
            self._away = 0
            self.arrived_at = time.monotonic()
        elif stopped_by is not None:
            self._away += 1
            is_blocked = stopped_by.fate in BLOCKED
            self._is_over |= is_blocked or self._away >= _MOST_AWAY
