"""How ETT% would move with scale, from a measured or supposed rate of failures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ett_service.core.fleet.totals import FAILURE, Totals
from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.planning.checkpoint_interval import (
    best_interval,
    expected_ratio,
    failure_rate,
    published_ratio,
)
from ett_service.core.words import Origin
from ett_service.fleet.summary import poisson_interval

Counted = Literal["nodes", "infra", "all"]
"""Failures of origin ``infra``, which come with nodes; preemptions, too; all of them."""

SCALES: tuple[int, ...] = tuple(8 << doubling for doubling in range(15))
"""Accelerators that are projected where none are asked for: 8 to 131,072."""

ASSUMPTION = (
    "Nodes fail at random, independently and at one rate, also during checkpoints and restarts, "
    "which take the same time at every scale. The ratio covers a long run between its first and "
    "last loop: losses to starting, waiting for hardware, evaluation, recompiles, stalls and "
    "shutdown come on top. Its bounds are those of the failure rate (Poisson, 95 %)."
)


@dataclass(frozen=True, slots=True)
class Input:
    """A number that the projection rests on, and how many observations it has."""

    value: float | None  #: None where nothing was measured
    n: int | None = None  #: None where somebody gave the number
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a run does at any scale; durations in seconds."""

    failures_per_node_day: Input
    save: Input  #: that a save stops the loop
    restart: Input  #: from a failure until it trains again
    interval: float | None = None  #: between checkpoints; None takes the best at each scale
    accelerators_per_node: int = 8

    @property
    def missing(self) -> list[str]:
        """Names of the inputs that are neither measured nor given."""
        named = {
            "failures_per_node_day": self.failures_per_node_day,
            "save_seconds": self.save,
            "restart_seconds": self.restart,
        }
        return [name for name, each in named.items() if each.value is None]


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """One scale; durations in seconds."""

    accelerators: int
    mtbf: float  #: infinite where nothing fails
    interval: float  #: what ``ett_ratio`` holds for; infinite where one should never save
    ett_ratio: float  #: by the renewal form
    low: float | None  #: for the highest likely rate of failures
    high: float | None
    published_ratio: float  #: by the short form
    best_interval: float
    best_ett_ratio: float

    @property
    def published_error(self) -> float:
        """How far the short form lies from the exact one."""
        return self.published_ratio - self.ett_ratio


def measured(totals: Totals, counted: Counted, accelerators_per_node: int) -> Inputs:
    """Take the inputs from what a cohort did.

    Node days are those of held accelerators. A restart is the mean time to recover, a save the
    mean stop of the loop. *totals* hold their tallies.
    """
    failures = _failures(totals, counted)
    node_days = totals.gpu_us / accelerators_per_node / DAY_US
    rate = Input(None, failures)
    if node_days:
        fewest, most = poisson_interval(failures)
        rate = Input(failures / node_days, failures, fewest / node_days, most / node_days)
    return Inputs(
        rate,
        save=_mean(totals, "checkpoint_blocking"),
        restart=_mean(totals, "time_to_recover"),
        accelerators_per_node=accelerators_per_node,
    )


def _failures(totals: Totals, counted: Counted) -> int:
    if counted == "nodes":
        broken = f"{FAILURE}{Origin.INFRA}/"
        return sum(tally.n for name, tally in totals.tallies.items() if name.startswith(broken))
    return totals["infra_failures" if counted == "infra" else "failures"]


def _mean(totals: Totals, name: str) -> Input:
    tally = totals.tally(name)
    mean_us = tally.mean_us
    return Input(None if mean_us is None else mean_us / SECOND_US, tally.n)


def project(inputs: Inputs, scales: Sequence[int] = SCALES) -> list[ScalePoint]:
    """Project ETT% at each number of accelerators; nothing while inputs are missing.

    Raises ValueError if an input is negative.
    """
    if inputs.missing:
        return []
    return [_point(inputs, accelerators) for accelerators in scales]


def _point(inputs: Inputs, accelerators: int) -> ScalePoint:
    given = inputs.failures_per_node_day
    assert given.value is not None
    assert inputs.save.value is not None
    assert inputs.restart.value is not None
    save, restart = inputs.save.value, inputs.restart.value

    def rate(per_node_day: float) -> float:
        return failure_rate(accelerators, per_node_day, inputs.accelerators_per_node)

    expected = rate(given.value)
    # Where nothing failed yet, one saves as if failures were as frequent as they still can be.
    best = best_interval(expected or rate(given.high or 0.0), save)
    interval = best if inputs.interval is None else inputs.interval
    low, high = (
        None if bound is None else expected_ratio(rate(bound), interval, save, restart)
        for bound in (given.high, given.low)
    )
    return ScalePoint(
        accelerators=accelerators,
        mtbf=1 / expected if expected else math.inf,
        interval=interval,
        ett_ratio=expected_ratio(expected, interval, save, restart),
        low=low,
        high=high,
        published_ratio=published_ratio(expected, interval, save, restart),
        best_interval=best,
        best_ett_ratio=expected_ratio(expected, best, save, restart),
    )
