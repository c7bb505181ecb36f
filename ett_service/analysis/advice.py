"""How often to save: the best interval for measured saves and failures, and what it would gain."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from scipy.special import stdtrit

from ett_service.analysis.intervals import CONFIDENCE, time_between
from ett_service.core.checkpointing import (
    CurvePoint,
    best_interval_seconds,
    curve,
    flat_band_seconds,
)
from ett_service.core.distribution import Tally, value
from ett_service.core.interval import DAY_US, HOUR_US, SECOND_US
from ett_service.core.renewal import best_interval
from ett_service.core.totals import WEIGHTED, Totals
from ett_service.core.vocabulary import Period

CHECKPOINT_BLOCKING = "checkpoint_blocking"
"""The tally of stops of the loop for a save."""

YEAR_US = 365 * DAY_US

Counted = Literal["all", "infra"]
Verdict = Literal["keep", "save_less_often", "save_more_often"]

_CURVE_FACTORS = tuple(2 ** (quarter / 4) for quarter in range(-12, 13))


@dataclass(frozen=True, slots=True)
class Measured:
    """What a job or a cohort did in a window."""

    window_us: int
    training_us: int  #: in the period ``training``
    training_weighted_us: int  #: times accelerators, of jobs whose accelerators are known
    failures: int  #: all of them
    infra_failures: int
    saves: Tally  #: how long each save stopped the loop
    gaps_us: Sequence[int]  #: between neighbouring checkpoints of an attempt

    @classmethod
    def of(cls, totals: Totals, window_us: int, gaps_us: Sequence[int]) -> "Measured":
        """Take from *totals* what the advice needs."""
        return cls(
            window_us=window_us,
            training_us=totals.period_us(Period.TRAINING),
            training_weighted_us=totals[WEIGHTED.periods[Period.TRAINING]],
            failures=totals["failures"],
            infra_failures=totals["infra_failures"],
            saves=totals.tally(CHECKPOINT_BLOCKING),
            gaps_us=gaps_us,
        )

    @property
    def interval_seconds(self) -> float | None:
        """The median between checkpoints; None without two of one attempt."""
        return median(self.gaps_us) / SECOND_US if self.gaps_us else None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value between bounds at ``CONFIDENCE``; a bound is None where nothing bounds it."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Gain:
    """What the best interval would have gained over the present one."""

    wasted_ratio: float  #: of the training time
    gpu_hours: float | None  #: in the window; None where all accelerators are unknown
    gpu_hours_a_year: float | None  #: at the same rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Durations in seconds, ratios of the training time; None is what was not measured."""

    counted: Counted
    measured: Measured
    save: Estimate  #: that a save stops the loop
    mtbf: Estimate  #: training time a failure
    best: Estimate  #: the best interval; without a failure only its lower bound
    current: CurvePoint | None  #: at the median between checkpoints
    reason: str | None  #: why there is no best interval, and nothing of what follows from it
    assumption: str
    least: CurvePoint | None = None  #: at the best interval
    renewal_interval: float | None = None  #: the best interval where failures are not rare
    flat_band: tuple[float, float] | None = None  #: intervals that waste at most 5 % more
    curve: Sequence[CurvePoint] = ()
    verdict: Verdict | None = None
    gain: Gain | None = None


def advise(measured: Measured, counted: Counted = "all") -> Advice:
    """Find the interval that wastes least.

    The bounds of failures are Poisson's (by chi-square), those of the mean save Student's. On the
    logarithm, of which the interval takes half of each, they are added as the root of squares.
    """
    failures = measured.infra_failures if counted == "infra" else measured.failures
    training = measured.training_us / SECOND_US
    save, mtbf = _save(measured.saves), _mtbf(measured.training_us, failures)
    current, best = measured.interval_seconds, _best(save, mtbf)

    def points(*intervals: float) -> tuple[CurvePoint, ...]:
        return tuple(curve(training, failures, save.value or 0.0, intervals))

    now = points(current)[0] if current and training and save.value else None
    found = Advice(
        counted=counted,
        measured=measured,
        save=save,
        mtbf=mtbf,
        best=best,
        current=now,
        reason=_reason(measured),
        assumption=_assumption(None),
    )
    if best.value is None or save.value is None or mtbf.value is None:
        return found
    (least,) = points(best.value)
    band = flat_band_seconds(training, failures, save.value)
    return replace(
        found,
        reason=None,
        assumption=_assumption(best.value / mtbf.value),
        least=least,
        renewal_interval=best_interval(1 / mtbf.value, save.value),
        flat_band=band,
        curve=points(*(factor * best.value for factor in _CURVE_FACTORS)),
        verdict=None if current is None else _verdict(current, band, best),
        gain=None if now is None else _gain(measured, now.wasted_ratio - least.wasted_ratio),
    )


def _save(saves: Tally) -> Estimate:
    """The mean save, whose exact sum is known, and its spread from the buckets."""
    count, mean_us = saves.n, saves.mean_us
    if not mean_us:
        return Estimate(None, None, None)
    mean = mean_us / SECOND_US
    if count < 2:  # noqa: PLR2004  # one has no spread
        return Estimate(mean, None, None)
    squares = sum(n * (value(place) - mean_us) ** 2 for place, n in saves.counts.items())
    error_us = math.sqrt(squares / (count - 1) / count)
    spread = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error_us / mean_us
    return Estimate(mean, mean * math.exp(-spread), mean * math.exp(spread))


def _mtbf(training_us: int, failures: int) -> Estimate:
    between = time_between(failures, training_us)
    return Estimate(*map(_seconds, (between.us, between.low_us, between.high_us)))


def _seconds(us: float | None) -> float | None:
    return None if us is None else us / SECOND_US


def _best(save: Estimate, mtbf: Estimate) -> Estimate:
    if save.value is None or mtbf.low is None:
        return Estimate(None, None, None)
    if mtbf.value is None:
        # Nothing failed: all that is known is how often it can have failed at most.
        low = best_interval_seconds(mtbf.low, 1, save.low or save.value)
        return Estimate(None, low, None)
    best = best_interval_seconds(mtbf.value, 1, save.value)
    if save.low is None or save.high is None or mtbf.high is None:
        return Estimate(best, None, None)
    below = math.hypot(math.log(mtbf.value / mtbf.low), math.log(save.value / save.low)) / 2
    above = math.hypot(math.log(mtbf.high / mtbf.value), math.log(save.high / save.value)) / 2
    return Estimate(best, best * math.exp(-below), best * math.exp(above))


def _verdict(current: float, band: tuple[float, float], best: Estimate) -> Verdict:
    low = min(band[0], best.low or band[0])
    high = max(band[1], best.high or band[1])
    if current < low:
        return "save_less_often"
    return "save_more_often" if current > high else "keep"


def _gain(measured: Measured, wasted: float) -> Gain:
    wasted = max(0.0, wasted)  # at the best interval rounding may leave less than nothing
    if not measured.training_weighted_us:
        return Gain(wasted, None, None)
    hours = wasted * measured.training_weighted_us / HOUR_US
    return Gain(wasted, hours, hours * YEAR_US / measured.window_us)


def _reason(measured: Measured) -> str:
    if not measured.training_us:
        return "Nothing trained."
    if not measured.saves.us:
        return "No save stopped the loop: what a save costs is not measured."
    return "Nothing failed: the best interval is known from below only."


def _assumption(interval_in_mtbf: float | None) -> str:
    share = "" if interval_in_mtbf is None else f" (here {interval_in_mtbf:.1%} of it)"
    return (
        f"F*I/2 holds for intervals short against the time between failures{share}. Each failure "
        "loses half an interval, one before a loop too; failures strike at random and at the "
        "measured rate, whatever the interval; saves stop the loop for as long as they did. Bounds "
        "are those of the failures (Poisson) and of the mean save (Student), joined as the root "
        "of squares of their logarithms."
    )
