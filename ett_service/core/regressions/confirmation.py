"""Whether two runs, one before a change and one after it, confirm a finding; and how many it takes.

Durations are compared by their logarithms, whose spread is that of the finding's own values: two
runs alone could not tell it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from statistics import fmean, median

_Z_95 = 1.645  #: one-sided
_Z_80 = 0.842
_MAD_TO_SIGMA = 1.4826
_LEAST_SIGMA = 0.01  #: values that never differ are no proof that the next will not
MOST_STARTS = 1_000
"""More than so many starts of each version are no experiment that anybody makes."""


class Settlement(StrEnum):
    """What the two runs say."""

    CONFIRMED = auto()  #: the second is slower, and not by chance
    REFUTED = auto()  #: half of the change is ruled out
    OPEN = auto()  #: neither; more starts would tell


@dataclass(frozen=True, slots=True)
class Settled:
    """The comparison of two runs."""

    outcome: Settlement
    ratio: float  #: second over first
    low: float  #: of its 90 % interval
    high: float


def spread(*sides: Sequence[float]) -> float | None:
    """Return the standard deviation of logarithms about the median of their side, robustly.

    None where a side has fewer than two.
    """
    if any(len(side) < 2 for side in sides):  # noqa: PLR2004 -- one has no spread
        return None
    away = [abs(value - middle) for side in sides for middle in (median(side),) for value in side]
    return max(median(away) * _MAD_TO_SIGMA, _LEAST_SIGMA)


def starts_needed(ratio: float, sigma: float) -> int:
    """Return how many starts of each version show a factor in 80 of 100 cases.

    *ratio* is positive and not 1. The answer is ``MOST_STARTS`` at most.
    """
    return min(MOST_STARTS, math.ceil(2 * ((_Z_95 + _Z_80) * sigma / math.log(ratio)) ** 2))


def settle(base: Sequence[float], other: Sequence[float], *, ratio: float, sigma: float) -> Settled:
    """Compare logarithms of two runs, none of them empty, with the *ratio* that was found."""
    effect = fmean(other) - fmean(base)
    margin = _Z_95 * sigma * math.sqrt(1 / len(base) + 1 / len(other))
    sign = 1 if ratio >= 1 else -1
    if sign * effect > margin:
        outcome = Settlement.CONFIRMED
    elif sign * effect + margin < abs(math.log(ratio)) / 2:
        outcome = Settlement.REFUTED
    else:
        outcome = Settlement.OPEN
    low, high = math.exp(effect - margin), math.exp(effect + margin)
    return Settled(outcome, math.exp(effect), low, high)
