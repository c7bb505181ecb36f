"""How often to save: the write-up's estimate of time wasted at a checkpoint interval.

A failure loses half an interval of training on average, and every save blocks the loop for a
while. The first grows with the interval, the second shrinks with it; in between lies the best
interval, which is Young's (1974). All durations are seconds, planned rather than measured;
``failures`` are those expected within ``training_seconds`` and need not be a whole number. Half
an interval a failure holds for intervals short against the time between failures; for longer
ones see :mod:`ett_service.core.planning.scale`.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ett_service.core.errors import refuse_negative, refuse_not_positive

FLAT = 0.05
"""How much more than the least an interval of the flat band wastes, at most."""


class CurvePoint(NamedTuple):
    """What an interval wastes, as shares of the training time."""

    interval_seconds: float
    unsaved_ratio: float  #: training that failures lose
    blocking_ratio: float  #: saves that stop the loop

    @property
    def wasted_ratio(self) -> float:
        """WTT% as a ratio."""
        return self.unsaved_ratio + self.blocking_ratio


def unsaved_seconds(failures: float, interval_seconds: float) -> float:
    """Training that failures lose: half an interval each.

    Raises ValueError if an argument is negative.
    """
    refuse_negative(failures=failures, interval_seconds=interval_seconds)
    return failures * interval_seconds / 2


def blocking_seconds(
    training_seconds: float, interval_seconds: float, save_seconds: float
) -> float:
    """Time for which saves of ``save_seconds`` each stop the loop.

    Raises ValueError if the interval is not positive or another argument is negative.
    """
    refuse_negative(training_seconds=training_seconds, save_seconds=save_seconds)
    refuse_not_positive(interval_seconds=interval_seconds)
    return training_seconds / interval_seconds * save_seconds


def wasted_ratio(
    training_seconds: float, failures: float, interval_seconds: float, save_seconds: float
) -> float:
    """WTT% as a ratio: what failures lose and saves block, over the training time.

    Raises ValueError if the training time or the interval is not positive or another argument
    is negative.
    """
    refuse_not_positive(training_seconds=training_seconds)
    unsaved = unsaved_seconds(failures, interval_seconds)
    blocking = blocking_seconds(training_seconds, interval_seconds, save_seconds)
    return (unsaved + blocking) / training_seconds


def best_interval_seconds(training_seconds: float, failures: float, save_seconds: float) -> float:
    """The interval that wastes least: ``sqrt(2 * training * save / failures)``.

    Infinite where nothing fails: then each save is a waste. Raises ValueError if the training
    time is not positive or another argument is negative.
    """
    refuse_not_positive(training_seconds=training_seconds)
    refuse_negative(failures=failures, save_seconds=save_seconds)
    if failures == 0:
        return math.inf
    return math.sqrt(2 * training_seconds * save_seconds / failures)


def flat_band_seconds(
    training_seconds: float, failures: float, save_seconds: float, slack: float = FLAT
) -> tuple[float, float]:
    """The shortest and longest interval that waste at most ``1 + slack`` times the least.

    Waste over the least is ``(r + 1/r) / 2`` at ``r`` times the best interval, so the ends are
    ``1 + slack -+ sqrt((1 + slack)^2 - 1)`` times it: 0.730 and 1.370 for 5 %. Infinite where
    nothing fails. Raises ValueError as :func:`best_interval_seconds` does.
    """
    refuse_negative(slack=slack)
    best = best_interval_seconds(training_seconds, failures, save_seconds)
    longest = 1 + slack + math.sqrt(slack * (2 + slack))
    return best / longest, best * longest


def curve(
    training_seconds: float, failures: float, save_seconds: float, intervals: Iterable[float]
) -> Iterator[CurvePoint]:
    """What each of *intervals* (seconds) wastes.

    Raises ValueError as :func:`wasted_ratio` does.
    """
    refuse_not_positive(training_seconds=training_seconds)
    for interval in intervals:
        yield CurvePoint(
            interval,
            unsaved_seconds(failures, interval) / training_seconds,
            blocking_seconds(training_seconds, interval, save_seconds) / training_seconds,
        )
