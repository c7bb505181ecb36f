"""How often to save, and the share of a run that then trains: on average, and failing at random.

The write-up's estimate: a failure loses half an interval of training on average, and every save
blocks the loop for a while. The first grows with the interval, the second shrinks with it; in
between lies the best interval, which is Young's (1974). ``failures`` are those expected within
``training_seconds`` and need not be a whole number. Half an interval a failure holds for intervals
short against the time between failures.

For longer ones, and at any scale: a run trains ``interval`` seconds, saves for ``save`` seconds,
and starts over from its last save whenever it fails, which takes ``restart`` seconds; failures
come at a constant rate and strike saves and restarts too. Every save is then a renewal, and the
mean time to reach it has a closed form (Daly 2006), so the share is exact for this model, not only
for rare failures. ``failure_rate`` is failures per second of the whole run.

All durations are seconds, planned rather than measured.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ett_service.core.errors import refuse_negative, refuse_not_positive

NODE_DAY_SECONDS = 86_400.0

FLAT = 0.05
"""How much more than the least an interval of the flat band wastes, at most."""


def failure_rate(
    accelerators: float, failures_per_node_day: float, accelerators_per_node: int
) -> float:
    """Failures per second of a run on so many accelerators: its nodes fail independently.

    Raises ValueError if an argument is negative or there is no accelerator to a node.
    """
    refuse_negative(accelerators=accelerators, failures_per_node_day=failures_per_node_day)
    refuse_not_positive(accelerators_per_node=accelerators_per_node)
    return accelerators / accelerators_per_node * failures_per_node_day / NODE_DAY_SECONDS


def expected_ratio(rate: float, interval: float, save: float, restart: float) -> float:
    """The share that trains: ``dt*lam*exp(-lam*u0) / (exp(lam*(dt + w)) - 1)``.

    Its limits are ``dt / (dt + w)`` where nothing fails and ``exp(-lam*u0)`` where free saves
    come all the time. Raises ValueError if an argument is negative.
    """
    refuse_negative(rate=rate, interval=interval, save=save, restart=restart)
    unblocked = _unblocked(interval, save)
    if rate == 0 or unblocked == 0:
        return unblocked
    exposure = rate * (interval + save)
    if math.isinf(rate) or math.isinf(exposure):
        return 0.0
    # Divided by exp(exposure) above and below, so that nothing overflows.
    renewed = exposure * math.exp(-exposure) / -math.expm1(-exposure) if exposure else 1.0
    return unblocked * renewed * math.exp(-rate * restart)


def published_ratio(rate: float, interval: float, save: float, restart: float) -> float:
    """The short form: ``(1 - lam * (u0 + dt/2)) / (1 + w/dt)``.

    From Kokolis and others (arXiv 2410.21680), where ``lam`` is nodes times failures a node. It
    counts half an interval and one restart for each failure, so it is close while those are
    short against the time between failures, and below 0 where they are not. Raises ValueError
    as :func:`expected_ratio` does.
    """
    refuse_negative(rate=rate, interval=interval, save=save, restart=restart)
    lost = rate * (restart + interval / 2) if rate else 0.0
    return (1 - lost) * _unblocked(interval, save)


def _unblocked(interval: float, save: float) -> float:
    """The share that saves leave: ``1 / (1 + w/dt)``."""
    if save == 0:
        return 1.0
    return 1 / (1 + save / interval) if interval else 0.0


def best_interval(rate: float, save: float) -> float:
    """The interval with the largest :func:`expected_ratio`; restarts do not move it.

    Its ``x = rate * interval`` solves ``1 - x = exp(-x - rate * save)``, which is halved into:
    the left side is the larger one below the solution alone. 0 where saving is free, infinite
    where nothing fails. Raises ValueError if an argument is negative.
    """
    refuse_negative(rate=rate, save=save)
    if save == 0:
        return 0.0
    if rate == 0:
        return math.inf
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        if math.log1p(-middle) + middle + rate * save > 0:
            low = middle
        else:
            high = middle
    return low / rate


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
