"""Totals and distributions: sums over jobs and time, and what they say once divided.

Nothing is averaged: totals are added, then divided, once, here. Distributions are counts per
logarithmic bucket, which add up as well and can be taken out again. The ladder of bucket bounds is
made of integers, so every machine puts a duration into the same bucket. Neighbouring bounds are at
most 4 % apart, hence the estimate in the middle of a bucket is at most 2 % from any duration in it.
After DDSketch (Masson, Rim and Lee, VLDB 2019), with bounds that also hit those of the histograms
on ``/metrics``.
"""

import math
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import ClassVar, NamedTuple, TypeAlias, TypeVar

from ett_service.core.fleet.measures import PLAIN, QUEUES, WEIGHTED
from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.core.words import Category, Owner, Period

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
        if not self.counts:
            return None
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

    @property
    def p50_us(self) -> int | None:
        """The median."""
        return self.quantile(0.5)

    @property
    def p90_us(self) -> int | None:
        """The 90th percentile."""
        return self.quantile(0.9)

    @property
    def p99_us(self) -> int | None:
        """The 99th percentile."""
        return self.quantile(0.99)


def summed(amounts: Mapping[K, int], other: Mapping[K, int], sign: int) -> dict[K, int]:
    """Add *sign* times the other to the one, key by key; what comes to 0 is absent."""
    if not amounts and sign == 1:
        return {key: amount for key, amount in other.items() if amount}
    sums = dict(amounts)
    for key, amount in other.items():
        left = sums.get(key, 0) + sign * amount
        if left:
            sums[key] = left
        else:
            sums.pop(key, None)
    return sums


JOB_ETT = "job_ett"
"""The tally of jobs by their own ETT%, in places of :func:`ratio_place`."""

PHASE = "phase:"
"""What the tallies of phases begin with, of attempts that have left them: ``phase:shutdown``."""

FAILURE = "failure:"
"""What the tallies of failures begin with: ``failure:infra/network``."""


_PLAIN = tuple(PLAIN.categories.values())
_WEIGHTED = tuple(WEIGHTED.categories.values())
_HELD = {
    category: "restart_wait_gpu_us" if category is Category.RESTART_WAIT else name
    for category, name in WEIGHTED.categories.items()
    if category is not Category.SCHEDULING
}

GPU_MEASURES = tuple(_HELD.values())
"""What :attr:`Totals.gpu_us` is the sum of, for what sums elsewhere."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums by measure, absent where 0, and tallies by name."""

    ZERO: ClassVar["Totals"]

    sums: Mapping[str, int] = field(default_factory=dict)
    tallies: Mapping[str, Tally] = field(default_factory=dict)

    def __getitem__(self, measure: str) -> int:
        """Return one sum."""
        return self.sums.get(measure, 0)

    def __add__(self, other: "Totals") -> "Totals":
        """Put both together."""
        if not other.tallies or not self.tallies:
            tallies = self.tallies or other.tallies
        else:
            names = self.tallies.keys() | other.tallies.keys()
            tallies = {name: self.tally(name) + other.tally(name) for name in names}
        return Totals(summed(self.sums, other.sums, 1), tallies)

    def __sub__(self, other: "Totals") -> "Totals":
        """Take the other out again."""
        names = self.tallies.keys() | other.tallies.keys()
        return Totals(
            summed(self.sums, other.sums, -1),
            {name: self.tally(name) - other.tally(name) for name in names},
        )

    def tally(self, name: str) -> Tally:
        """Return one distribution; an empty one where nothing was counted."""
        return self.tallies.get(name, Tally())

    def category_us(self, category: Category) -> int:
        """Return its wall time."""
        return self[PLAIN.categories[category]]

    def category_weighted_us(self, category: Category) -> int:
        """Return its time times accelerators."""
        return self[WEIGHTED.categories[category]]

    def category_gpu_us(self, category: Category) -> int:
        """Return the part of its weighted time in which accelerators were held."""
        return self[_HELD[category]] if category in _HELD else 0

    def period_us(self, period: Period) -> int:
        """Return its wall time."""
        return self[PLAIN.periods[period]]

    def wait_us(self, owner: Owner) -> int:
        """Return the wall time of waits that it owned."""
        return self[PLAIN.owners[owner]]

    def wait_weighted_us(self, owner: Owner) -> int:
        """Return the same times accelerators."""
        return self[WEIGHTED.owners[owner]]

    def queue_us(self, owner: Owner) -> int:
        """Return the time in the queue that it owned."""
        return self[QUEUES[owner]]

    @property
    def e2e_us(self) -> int:
        """Wall time in all."""
        return self._sum(_PLAIN)

    @property
    def weighted_us(self) -> int:
        """Time times accelerators in all: the weight of the headline."""
        return self._sum(_WEIGHTED)

    @property
    def gpu_us(self) -> int:
        """Accelerators' time that was held, and is paid for."""
        return self._sum(GPU_MEASURES)

    def _sum(self, measures: Iterable[str]) -> int:
        sums = self.sums
        return sum([sums[name] for name in measures if name in sums])

    @property
    def effective_us(self) -> int:
        """Wall time of effective training."""
        return self.category_us(Category.EFFECTIVE_TRAINING)

    @property
    def effective_weighted_us(self) -> int:
        """Effective training times accelerators."""
        return self.category_weighted_us(Category.EFFECTIVE_TRAINING)

    @property
    def lost_weighted_us(self) -> int:
        """Time times accelerators that was not effective."""
        return self.weighted_us - self.effective_weighted_us

    @property
    def lost_gpu_us(self) -> int:
        """The part of it in which accelerators were held."""
        return self.gpu_us - self.effective_weighted_us

    @property
    def ett_ratio(self) -> float:
        """ETT%, weighted by accelerators; 0 for no time at all."""
        return ratio(self.effective_weighted_us, self.weighted_us)

    @property
    def ett_ratio_wall(self) -> float:
        """ETT% by wall time, every job's second alike; 0 for no time at all."""
        return ratio(self.effective_us, self.e2e_us)

    @property
    def ett_ratio_median_job(self) -> float | None:
        """The median of the ETT% of the jobs that ended, to 0.0005; None without any."""
        bucket = self.tally(JOB_ETT).quantile_place(0.5)
        return None if bucket is None else min(1.0, (2 * bucket + 1) / (2 * RATIO_PLACES))

    @property
    def wasted_ratio(self) -> float:
        """WTT% by wall time: wasted in the period ``training``; 0 where nothing trained."""
        return ratio(self["wasted_us"], self.period_us(Period.TRAINING))

    @property
    def slowed_ratio(self) -> float | None:
        """The slowed part of measured training, weighted by accelerators; None without any."""
        slowed_us = self["slowed_weighted_us"]
        return _rate(slowed_us, slowed_us + self["effective_at_reference_weighted_us"])

    @property
    def slowed_ratio_wall(self) -> float | None:
        """The same by wall time."""
        slowed_us = self["slowed_us"]
        return _rate(slowed_us, slowed_us + self["effective_at_reference_us"])

    @property
    def data_wait_ratio(self) -> float | None:
        """The share of loops that waited for data, weighted by accelerators; None without any."""
        return _rate(self["data_wait_weighted_us"], self["data_wait_loop_weighted_us"])

    @property
    def data_wait_ratio_wall(self) -> float | None:
        """The same by wall time."""
        return _rate(self["data_wait_us"], self["data_wait_loop_us"])

    @property
    def preemption_ratio(self) -> float | None:
        """Attempts that made room, over those that began; None where none began."""
        return _rate(self["preemptions"], self["attempts"])

    @property
    def failures_per_1000_gpu_hours(self) -> float | None:
        """Failures in so many hours of held accelerators; None where none were held."""
        return _rate(1_000 * HOUR_US * self["failures"], self.gpu_us)

    def failures_per_1000_node_days(self, accelerators_per_node: int) -> float | None:
        """Failures in so many days of held nodes; None where none were held."""
        return _rate(1_000 * DAY_US * accelerators_per_node * self["failures"], self.gpu_us)


Totals.ZERO = Totals()


class PreemptionOrder(StrEnum):
    """Why an attempt had to make room."""

    FIRST = auto()  #: for a job that had work of its own to do
    SECOND = auto()  #: for one that came back after a failure
    UNKNOWN = auto()  #: nobody said for which, or that job is not known


class Loss(NamedTuple):
    """What preemptions of one order cost."""

    attempts: int = 0
    unsaved_weighted_us: int = 0
    recovery_weighted_us: int = 0
    unweighted: int = 0  #: of attempts with unknown accelerators, whose loss is unknown too

    @property
    def lost_weighted_us(self) -> int:
        """Unsaved time and the recovery, times accelerators."""
        return self.unsaved_weighted_us + self.recovery_weighted_us

    def plus(self, other: "Loss") -> "Loss":
        """Put both together."""
        return Loss(*map(sum, zip(self, other, strict=True)))


def ratio(part: int, whole: int) -> float:
    """Divide, once and last; 0 for an empty whole."""
    return part / whole if whole else 0.0


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None
