"""How ETT% moves with scale: the share of a long run that trains, where it fails at random.

A run trains ``interval`` seconds, saves for ``save`` seconds, and starts over from its last save
whenever it fails, which takes ``restart`` seconds; failures come at a constant rate and strike
saves and restarts too. Every save is then a renewal, and the mean time to reach it has a closed
form (Daly 2006), so the share is exact for this model at any scale, not only for rare failures.
All durations are seconds, ``failure_rate`` is failures per second of the whole run.
"""

import math

from ett_service.core.errors import refuse_negative, refuse_not_positive

NODE_DAY_SECONDS = 86_400.0


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
