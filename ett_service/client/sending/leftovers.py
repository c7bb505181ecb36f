"""Sending what dead processes left in their spools."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ett_service.client.sending.backlog import adopted
from ett_service.client.sending.courier import Courier, Tally
from ett_service.client.sending.delivery import Fate, Target, Verdict


@dataclass(slots=True)
class Shipment:
    """What became of some spools."""

    tally: Tally = field(default_factory=Tally)
    spools: int = 0  #: sent whole
    in_use: int = 0  #: their processes live and send them
    left: int = 0  #: not sent, or not whole
    stopped_by: Verdict | None = None


def ship(
    directories: Iterable[Path],
    target: Target,
    *,
    seconds: float,
    progress: Callable[[Shipment], None],
) -> Shipment:
    """Send the spools that nobody owns, for about *seconds*; stop at a server that takes nothing.

    Raises ``OSError`` where a spool cannot be read or removed.
    """
    shipment = Shipment()
    deadline = time.monotonic() + seconds
    for directory in directories:
        if shipment.stopped_by is not None:
            shipment.left += 1
            continue
        with adopted(directory) as backlog:
            if backlog is None:
                shipment.in_use += (directory / "owner.json").exists()
                continue
            courier = Courier(target, backlog, tally=shipment.tally)
            verdict = _carry(courier, deadline, lambda: progress(shipment))
            if verdict.fate is Fate.SETTLED:
                backlog.discard()
                shipment.spools += 1
            else:
                shipment.left += 1
                shipment.stopped_by = verdict
    return shipment


def _carry(courier: Courier, deadline: float, progress: Callable[[], None]) -> Verdict:
    while time.monotonic() < deadline:
        verdict = courier.carry_one()
        progress()
        if verdict is None:
            return Verdict(Fate.SETTLED)
        if verdict.fate is not Fate.SETTLED:
            return verdict
    return Verdict(Fate.LATER, reason="the time for sending has run out")
