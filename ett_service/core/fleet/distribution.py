"""Distributions as counts per logarithmic bucket: they add up, and can be taken out again.

The ladder of bucket bounds is made of integers, so every machine puts a duration into the same
bucket. Neighbouring bounds are at most 4 % apart, hence the estimate in the middle of a bucket is
at most 2 % from any duration in it. After DDSketch (Masson, Rim and Lee, VLDB 2019), with bounds
that also hit those of the histograms on ``/metrics``.
"""

import math
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from ett_service.core.intervals import SECOND_US

K = TypeVar("K", bound=Hashable)

_GROWTH_PERCENT = 104

DURATION_BOUNDS_US: tuple[int, ...] = tuple(
    SECOND_US * seconds
    for seconds in (
        1, 2, 5, 10, 20, 30, 60, 90, 120, 180, 300, 450, 600, 900, 1200, 1800, 2700, 3600, 5400,
        7200, 14400,
    )
)  # fmt: skip
"""Upper bounds of the buckets of times to start, times to recover and phase durations."""

SAVE_BOUNDS_US: tuple[int, ...] = tuple(
    SECOND_US * hundredths // 100
    for hundredths in (10, 25, 50, 100, 250, 500, 1000, 1500, 3000, 6000, 12000, 30000)
)
"""Those of the stops for a save."""

HISTOGRAM_BOUNDS_US: tuple[int, ...] = tuple(sorted({*DURATION_BOUNDS_US, *SAVE_BOUNDS_US}))
"""0.1 s to 4 h: the bounds of the histograms on ``/metrics``, each of them one of the ladder."""

_LONGEST_US = 2**62

RATIO_PLACES = 1_000
"""A ratio from 0 to 1 lies in the place ``floor(1000 * ratio)``."""


def _rungs() -> Iterator[int]:
    anchors = iter(HISTOGRAM_BOUNDS_US)
    anchor = next(anchors)
    rung = 1
    yield rung
    while rung < _LONGEST_US:
        rung = min(max(rung + 1, rung * _GROWTH_PERCENT // 100), anchor)
        if rung == anchor:
            anchor = next(anchors, _LONGEST_US)
        yield rung


_LADDER = (0, *_rungs())


def place(us: int) -> int:
    """Return the bucket of a duration in microseconds; 0 holds 0 alone.

    Raises ValueError if it is negative or beyond all buckets.
    """
    if not 0 <= us <= _LONGEST_US:
        raise ValueError(f"{us} us lie in no bucket")
    return bisect_left(_LADDER, us)


def bounds(bucket: int) -> tuple[int, int]:
    """Return ``(low, high]`` of a bucket in microseconds; ``(0, 0)`` of bucket 0."""
    return _LADDER[max(0, bucket - 1)], _LADDER[bucket]


def value(bucket: int) -> int:
    """Return an estimate in microseconds, at most 2 % from any duration in the bucket.

    It is the harmonic middle ``2ab / (a + b)``, where the relative errors at both ends are alike.
    """
    low, high = bounds(bucket)
    ends = low + 1 + high
    return 0 if high == 0 else (2 * (low + 1) * high + ends // 2) // ends


def ratio_place(part: int, whole: int) -> int:
    """Return the place of *part* / *whole*; 0 for an empty whole."""
    return RATIO_PLACES * part // whole if whole else 0


Counts: TypeAlias = Mapping[int, int]
"""How many lie in each place; places without any are absent."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Durations (or ratios) by place, and their exact sum in microseconds."""

    counts: Counts = field(default_factory=dict)
    us: int = 0

    @property
    def n(self) -> int:
        """How many there are."""
        return sum(self.counts.values())

    @property
    def mean_us(self) -> float | None:
        """Their exact mean; None where there are none."""
        count = self.n
        return self.us / count if count else None

    def __add__(self, other: "Tally") -> "Tally":
        """Put both together."""
        return Tally(summed(self.counts, other.counts, 1), self.us + other.us)

    def __sub__(self, other: "Tally") -> "Tally":
        """Take the other out again."""
        return Tally(summed(self.counts, other.counts, -1), self.us - other.us)

    def quantile_place(self, q: float) -> int | None:
        """Return the place in which the ``ceil(q * n)``-th smallest lies; None without any.

        Raises ValueError unless *q* is from 0 to 1.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"q is {q}: a quantile from 0 to 1 is needed")
        rank = max(1, math.ceil(q * self.n))
        for bucket in sorted(self.counts):
            rank -= self.counts[bucket]
            if rank <= 0:
                return bucket
        return None

    def quantile(self, q: float) -> int | None:
        """Return the nearest-rank quantile in microseconds, within 2 %; None without any."""
        bucket = self.quantile_place(q)
        return None if bucket is None else value(bucket)


def summed(amounts: Mapping[K, int], other: Mapping[K, int], sign: int) -> dict[K, int]:
    """Add *sign* times the other to the one, key by key; what comes to 0 is absent."""
    sums = dict(amounts)
    for key, amount in other.items():
        left = sums.get(key, 0) + sign * amount
        if left:
            sums[key] = left
        else:
            sums.pop(key, None)
    return sums
