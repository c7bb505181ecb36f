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
    progress: Callable[[Shipment], None],
) -> Shipment:
    """Send the spools that nobody owns, for about *seconds*; stop at a server that takes nothing.

    A connection that breaks leaves its spool, and the others are sent.

    Raises ``OSError`` where a spool cannot be read or removed.
    """
    shipping = _Shipping(target, time.monotonic() + seconds, progress)
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
    progress: Callable[[Shipment], None]
    shipment: Shipment = field(default_factory=Shipment)
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
        seconds = max(1.0, min(self.deadline - time.monotonic(), _EXCHANGE_SECONDS))
        courier = Courier(self.target, backlog, timeout=seconds)
        pace = Pace()
        while time.monotonic() < self.deadline:
            verdict = courier.carry_one()
            tally, courier.tally = courier.tally, Tally()
            self._add(tally=tally)
            if verdict is None:
                return Verdict(Fate.SETTLED)
            if verdict.fate is Fate.BUSY:
                pace.heed(verdict, time.monotonic(), 0)
                self._wait_until(pace.not_before)
            elif verdict.fate is not Fate.SETTLED:
                return verdict
        return Verdict(Fate.LATER, reason="the time for sending has run out")

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
        elif stopped_by is not None:
            self._away += 1
            is_blocked = stopped_by.fate in BLOCKED
            self._is_over |= is_blocked or self._away >= _MOST_AWAY
