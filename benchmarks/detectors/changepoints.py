"""Where the level of one series changes for good: the core of the detector, for any numbers.

The partition of least cost is found exactly (optimal partitioning, Jackson et al. 2005): squares of
what is left about each part's mean, and a price for each change. Values are divided by the spread
between neighbours and lone outliers are cut towards the median around them. The price goes by the
long-run variance about the last partition, so that what wanders, or has a trend, is not cut to
pieces: one of independent noise costs ``5 ln(n)``, two and a half times Schwarz's.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ett_service.detection.sample import Floats

SHORTEST = 7  #: values between two changes
_PRICE = 5.0  #: of a change, times the logarithm of the length
_ROUNDS = 3  #: in which the price is worked out anew
_MOST_ALIKE = 0.95  #: correlation of neighbours
_OUTLIER = 3.0  #: spreads from the median of the five values around
_AROUND = 5
_MAD = 1.4826


def changepoints(values: Sequence[float] | Floats) -> list[int]:
    """Return the places at which a new level begins, in order; deterministic.

    Values are finite; their unit does not matter.
    """
    series = np.asarray(values, dtype=np.float64)
    spread = _spread(series)
    if len(series) < 2 * SHORTEST or not spread:
        return []
    series = _tamed((series - np.median(series)) / spread)
    price, places = 1.0, list[int]()
    for _ in range(_ROUNDS):
        places = _partition(series, price * _PRICE * float(np.log(len(series))))
        price = max(1.0, _long_run_variance(series, places))
    return places


def _spread(series: Floats) -> float:
    """Return the standard deviation of noise, by the differences of neighbours."""
    steps = np.diff(series)
    if not len(steps):
        return 0.0
    robust = _MAD * float(np.median(np.abs(steps - np.median(steps))))
    return (robust or float(steps.std())) / float(np.sqrt(2))


def _tamed(series: Floats) -> Floats:
    """Cut what lies far from the values around it."""
    padded = np.pad(series, _AROUND // 2, mode="edge")
    around = np.median(sliding_window_view(padded, _AROUND), axis=1)
    return np.asarray(around + np.clip(series - around, -_OUTLIER, _OUTLIER))


def _partition(series: Floats, price: float) -> list[int]:
    count = len(series)
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (series, series * series))
    cost = np.full(count + 1, np.inf)
    cost[0] = -price
    last: NDArray[np.int64] = np.zeros(count + 1, dtype=np.int64)
    for end in range(SHORTEST, count + 1):
        start = np.arange(end - SHORTEST + 1)
        total = sums[end] - sums[start]
        left = squares[end] - squares[start] - total * total / (end - start)
        whole = cost[start] + left + price
        last[end] = int(whole.argmin())
        cost[end] = whole[last[end]]
    places = []
    end = int(last[count])
    while end:
        places.append(end)
        end = int(last[end])
    return places[::-1]


def _long_run_variance(series: Floats, places: Sequence[int]) -> float:
    """Return the variance of sums, by the length, of a first-order autoregression."""
    rest = series.copy()
    for begin, end in pairwise([0, *places, len(series)]):
        rest[begin:end] -= series[begin:end].mean()
    square = float(rest @ rest)
    if not square:
        return 0.0
    alike = min(max(float(rest[1:] @ rest[:-1]) / square, 0.0), _MOST_ALIKE)
    return square / len(rest) * (1 + alike) / (1 - alike)
