"""Response times of a regression: detected, acknowledged and resolved, against their limits.

Instants are microseconds since the Unix epoch, durations microseconds.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ett_service.core.intervals import HOUR_US


@dataclass(frozen=True, slots=True)
class Sla:
    """The time limit of each response."""

    detect_us: int = 96 * HOUR_US
    acknowledge_us: int = 24 * HOUR_US
    resolve_us: int = 168 * HOUR_US


@dataclass(frozen=True, slots=True)
class ResponseTime:
    """One response: how long it took, or has taken so far, and its limit."""

    us: int
    limit_us: int
    runs: bool  #: whether it is still to come

    @property
    def breached(self) -> bool:
        """Whether it took, or has taken, longer than its limit."""
        return self.us > self.limit_us


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """The response times of a regression; None for what has not begun, or does not count."""

    detect: ResponseTime | None
    acknowledge: ResponseTime | None
    resolve: ResponseTime | None


class Moments(NamedTuple):
    """When each step of a regression happened; None for what did not."""

    onset_us: int
    firing_us: int | None = None
    acknowledged_us: int | None = None
    resolved_us: int | None = None
    written_us: int | None = None  #: when the run that fired it was stored, if known
    searched_us: int | None = None  #: when its project was first searched, if known


def clocks(moments: Moments, sla: Sla, now_us: int) -> ResponseTimes:
    """Return the response times as of *now_us*.

    Detection lasts from the estimated onset until the regression fires; of what began before its
    project was first searched it does not count, since nobody could have told it then. The others
    start where it fires, or when that run was stored: the first search over a project fires as of
    past days. A resolution ends all of them.
    """
    resolved_us = moments.resolved_us
    detected_us = resolved_us if moments.firing_us is None else moments.firing_us
    detect = None
    if moments.searched_us is None or moments.onset_us >= moments.searched_us:
        detect = _clock(moments.onset_us, detected_us, sla.detect_us, now_us)
    if moments.firing_us is None:
        return ResponseTimes(detect, None, None)
    acknowledged_us = resolved_us if moments.acknowledged_us is None else moments.acknowledged_us
    begin_us = max(moments.firing_us, moments.written_us or moments.firing_us)
    return ResponseTimes(
        detect,
        _clock(begin_us, acknowledged_us, sla.acknowledge_us, now_us),
        _clock(begin_us, resolved_us, sla.resolve_us, now_us),
    )


def _clock(begin_us: int, end_us: int | None, limit_us: int, now_us: int) -> ResponseTime:
    until_us = now_us if end_us is None else end_us
    return ResponseTime(max(0, until_us - begin_us), limit_us, runs=end_us is None)
