"""How long a regression took to be found, acknowledged and resolved, against what is promised.

Instants are microseconds since the Unix epoch, durations microseconds.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ett_service.core.intervals import HOUR_US


@dataclass(frozen=True, slots=True)
class Sla:
    """Within how long each is to happen."""

    detect_us: int = 96 * HOUR_US
    acknowledge_us: int = 24 * HOUR_US
    resolve_us: int = 168 * HOUR_US


@dataclass(frozen=True, slots=True)
class ResponseTime:
    """One of the three: how long it took, or has taken so far, and how long it may."""

    us: int
    limit_us: int
    runs: bool  #: it has not happened yet

    @property
    def breached(self) -> bool:
        """Whether it took, or takes by now, longer than it may."""
        return self.us > self.limit_us


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """All three; None for what has not begun."""

    detect: ResponseTime
    acknowledge: ResponseTime | None
    resolve: ResponseTime | None


class Moments(NamedTuple):
    """When what happened to a regression; None for what did not."""

    onset_us: int
    firing_us: int | None = None
    acknowledged_us: int | None = None
    resolved_us: int | None = None
    written_us: int | None = None  #: the run that fired it, if that is known


def clocks(moments: Moments, sla: Sla, now_us: int) -> ResponseTimes:
    """Read the clocks at *now_us*.

    The first runs from the estimated onset until it fires, the others from there, or from when
    that was written: the first search over a project fires as of days of which nobody could hear.
    Being resolved ends all of them.
    """
    resolved_us = moments.resolved_us
    found_us = resolved_us if moments.firing_us is None else moments.firing_us
    detect = _clock(moments.onset_us, found_us, sla.detect_us, now_us)
    if moments.firing_us is None:
        return ResponseTimes(detect, None, None)
    taken_us = resolved_us if moments.acknowledged_us is None else moments.acknowledged_us
    begin_us = max(moments.firing_us, moments.written_us or moments.firing_us)
    return ResponseTimes(
        detect,
        _clock(begin_us, taken_us, sla.acknowledge_us, now_us),
        _clock(begin_us, resolved_us, sla.resolve_us, now_us),
    )


def _clock(begin_us: int, end_us: int | None, limit_us: int, now_us: int) -> ResponseTime:
    until_us = now_us if end_us is None else end_us
    return ResponseTime(max(0, until_us - begin_us), limit_us, runs=end_us is None)
