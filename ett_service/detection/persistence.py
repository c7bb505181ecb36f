"""Whether a change lasts: it outlives the loss of any one day, and has not fallen back since."""

from dataclasses import dataclass

import numpy as np

from ett_service.core.regression import Metric
from ett_service.detection.panel import Flags
from ett_service.detection.watch import Watch

_LEFT = 0.4  #: part of a change under which it has fallen back
OUTLIVES = 2.0  #: score that has to be left without any one day
FALLEN = 2.3  #: score at which the latest days have fallen back


IN_BURSTS = frozenset(
    {
        Metric.FAILURES_PER_GPU_HOUR,
        Metric.UNSAVED_SECONDS,
        Metric.TIME_TO_RECOVER_SECONDS,
        Metric.ETT_RATIO,
    }
)
"""What an outage changes for days: it has to outlive the loss of any ``BURST_DAYS`` in a row."""

BURST_DAYS = 3


@dataclass(frozen=True, slots=True)
class Persistence:
    """Scores in the direction of the change, and the days that it is there on."""

    without_one: float  #: the least score without one of the days, or bursts, since the onset
    fallen: float  #: largest score of latest days that fell far under those before them
    start: int  #: days of the window
    stop: int

    @property
    def lasts(self) -> bool:
        """Tell whether it is more than some bad days."""
        return self.without_one >= OUTLIVES and self.fallen < FALLEN


def persistence(watch: Watch, group: int, start: int, sign: int) -> Persistence:
    """Look day by day at what changed in a group on day *start*."""
    count = watch.counts(group)
    days = np.arange(len(count))
    late = days >= start
    seen = np.flatnonzero(late & (count > 0))
    whole = sign * watch.halves(group, late, ~late).effect
    span = BURST_DAYS if watch.subject.metric in IN_BURSTS else 1
    without = [
        _without(watch, group, sign, late, (days >= day) & (days < day + span), whole)
        for day in seen
    ]
    falls = [_fall(watch, group, sign, late, days >= day) for day in seen[1:]]
    least, fallen = min(without, default=0.0), max(falls, default=0.0)
    if fallen >= FALLEN:
        stop = int(seen[1:][int(np.argmax(falls))])
        return Persistence(least, fallen, start, stop)
    if least < OUTLIVES and len(seen):
        day = int(seen[int(np.argmin(without))])
        return Persistence(least, fallen, day, min(day + span, len(count)))
    return Persistence(least, fallen, start, len(count))


def _without(watch: Watch, group: int, sign: int, late: Flags, day: Flags, whole: float) -> float:
    """Return the score without a day; none where most of the change goes away with it."""
    left = watch.halves(group, late & ~day, ~late)
    return sign * left.score if sign * left.effect >= whole / 2 else 0.0


def _fall(watch: Watch, group: int, sign: int, late: Flags, latest: Flags) -> float:
    """Return how surely the *latest* days lie far under those before them."""
    then = sign * watch.halves(group, late & ~latest, ~late).effect
    now = sign * watch.halves(group, latest, ~late).effect
    if now >= then * _LEFT:
        return 0.0
    return max(0.0, -sign * watch.halves(group, latest, late & ~latest).score)
