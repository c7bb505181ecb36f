"""Rank tests: the factor by which two sets of durations differ, with interval and probability.

Mann and Whitney (1947) for the probability, with mid-ranks for ties: exact in small sets, else
by the normal distribution with the correction for ties. Hodges and Lehmann (1963) for
the factor, the median of all quotients of one of each; Moses' interval (Lehmann, Nonparametrics,
1975, 2.5) cuts off as many of them at both ends as the same distribution says. Holm (1979) for
several probabilities at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, erfc, exp, inf, sqrt
from statistics import NormalDist

import numpy as np

from ett_service.detection.sample import Floats

CONFIDENCE = 0.95
POWER = 0.8

_MOST_EXACT = 40  #: values of both sets; with more the normal distribution is as good
_MOST_PAIRED = 1_500  #: values of a set of which all quotients are taken
_FEWEST = 2
_EFFICIENCY = 3 / np.pi
"""Of ranks against means where logarithms are normal (Pitman)."""
MAD_TO_SIGMA = 1.4826  #: standard deviations of a normal distribution in its MAD


@dataclass(frozen=True, slots=True)
class Ranked:
    """The second set against the first."""

    ratio: float
    low: float  #: of its 95 % interval; 0 and inf where there are too few values
    high: float
    p: float  #: of no difference, two-sided


def compare(base: Floats, other: Floats) -> Ranked | None:
    """Compare the logarithms of durations; None where a set is empty."""
    if not len(base) or not len(other):
        return None
    tail = _Tail(base, other)
    quotients = _quotients(base, other)
    cut = tail.cut(len(quotients))
    low, high = (-inf, inf) if cut is None else (quotients[cut], quotients[-1 - cut])
    # They are sorted already, so their median needs no search.
    middle = quotients[(len(quotients) - 1) // 2 : len(quotients) // 2 + 1].mean()
    return Ranked(exp(float(middle)), exp(low), exp(high), tail.p)


def holm(probabilities: Sequence[float]) -> list[float]:
    """Correct probabilities for their number (Holm, 1979)."""
    corrected = [1.0] * len(probabilities)
    most = 0.0
    ranked = sorted(range(len(probabilities)), key=lambda place: probabilities[place])
    for rank, place in enumerate(ranked):
        most = max(most, min(1.0, (len(probabilities) - rank) * probabilities[place]))
        corrected[place] = most
    return corrected


def smallest(base: Floats, other: Floats, level: float = 1 - CONFIDENCE) -> float | None:
    """Return the smallest factor that sets of these sizes and spreads show in 8 of 10 cases.

    After Noether (1987) for logarithms about normal; None where so few values show no difference
    at the *level*, however large it is.
    """
    counts = len(base), len(other)
    if min(counts) < _FEWEST or 2 / _ways(*counts) > level:
        return None
    spread = sqrt(np.average([_spread(base) ** 2, _spread(other) ** 2], weights=counts))
    normal = NormalDist()
    reach = normal.inv_cdf(1 - level / 2) + normal.inv_cdf(POWER)
    return exp(reach * spread * sqrt((1 / counts[0] + 1 / counts[1]) / _EFFICIENCY))


class _Tail:
    """The distribution of the rank sum of a set where both sets are of one population."""

    def __init__(self, base: Floats, other: Floats) -> None:
        self._counts = len(base), len(other)
        self._doubled = _doubled_ranks(np.concatenate([base, other]))
        self._sum = int(self._doubled[len(base) :].sum())
        self._exact = sum(self._counts) <= _MOST_EXACT

    @property
    def p(self) -> float:
        if self._exact:
            chances = _chances(self._doubled, self._counts[1])
            below, above = chances[: self._sum + 1].sum(), chances[self._sum :].sum()
            return float(min(1.0, 2 * min(below, above)))
        mean, deviation = self._moments()
        if not deviation:
            return 1.0
        away = max(0.0, abs(self._sum - mean) - 1) / deviation  # continuity; sums are doubled
        return erfc(away / sqrt(2))

    def cut(self, quotients: int) -> int | None:
        """Return how many quotients lie outside of the interval at each end; None: no interval."""
        ours, theirs = self._counts
        tail = (1 - CONFIDENCE) / 2
        if self._exact:
            ranks = np.arange(1, ours + theirs + 1) * 2
            chances = _chances(ranks, theirs)[theirs * (theirs + 1) :: 2]  # by U, from 0
            outside = int(np.searchsorted(np.cumsum(chances), tail, side="right")) - 1
        else:
            deviation = sqrt(ours * theirs * (ours + theirs + 1) / 12)
            outside = int(ours * theirs / 2 + NormalDist().inv_cdf(tail) * deviation)
        if outside < 0:
            return None
        return min(outside * quotients // (ours * theirs), (quotients - 1) // 2)

    def _moments(self) -> tuple[float, float]:
        """Return mean and standard deviation of the doubled rank sum."""
        ours, theirs = self._counts
        together = ours + theirs
        ties = np.unique(self._doubled, return_counts=True)[1].astype(float)
        tied = float((ties**3 - ties).sum()) / (together * (together - 1))
        variance = ours * theirs / 12 * (together + 1 - tied)
        return float(theirs * (together + 1)), 2 * sqrt(max(0.0, variance))


def _doubled_ranks(values: Floats) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return twice the mid-rank of each value: a whole number."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: np.ndarray[tuple[int], np.dtype[np.int64]] = (2 * last - count + 1)[place]
    return ranks


def _chances(doubled: "np.ndarray[tuple[int], np.dtype[np.int64]]", drawn: int) -> Floats:
    """Return the probability of each sum of *drawn* of these ranks."""
    ways = np.zeros((drawn + 1, int(doubled.sum()) + 1))
    ways[0, 0] = 1
    for rank in doubled.tolist():
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank]
    chances: Floats = ways[drawn] / ways[drawn].sum()
    return chances


def _ways(ours: int, theirs: int) -> int:
    """Return the number of ways to divide values into sets of these sizes."""
    return comb(ours + theirs, ours)


def _quotients(base: Floats, other: Floats) -> Floats:
    ours, theirs = (_thinned(np.sort(values)) for values in (base, other))
    return np.sort(np.subtract.outer(theirs, ours), axis=None)


def _thinned(ordered: Floats) -> Floats:
    if len(ordered) <= _MOST_PAIRED:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, _MOST_PAIRED).round().astype(np.intp)]


def _spread(values: Floats) -> float:
    """Return a robust standard deviation, or the plain one where most values are equal."""
    robust = MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values))))
    return robust or float(np.std(values, ddof=1))
