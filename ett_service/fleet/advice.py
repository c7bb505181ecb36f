"""Advice on the checkpoint interval, for a job and for the fleet's cohorts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Literal

from scipy.special import stdtrit
from sqlalchemy import Connection

from ett_service.core.fleet.measures import PLAIN, WEIGHTED
from ett_service.core.fleet.totals import Tally, Totals, value
from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.core.ledger.results import Checkpoint, JobLedger
from ett_service.core.planning.checkpoint_interval import (
    CurvePoint,
    best_interval,
    best_interval_seconds,
    curve,
    flat_band_seconds,
)
from ett_service.core.words import Period
from ett_service.fleet.scope import Scope, Window
from ett_service.fleet.summary import time_between
from ett_service.fleet.uncertainty import CONFIDENCE
from ett_service.storage.fleet import rollups
from ett_service.storage.fleet.histories import MOST_GAPS, cohort_gaps
from ett_service.storage.fleet.job_sums import job_tally, job_totals
from ett_service.storage.jobs import ledgers

CHECKPOINT_BLOCKING = "checkpoint_blocking"
"""The tally of stops of the loop for a save."""

YEAR_US = 365 * DAY_US

CountedFailures = Literal["all", "infra"]
Verdict = Literal["keep", "save_less_often", "save_more_often"]

_CURVE_FACTORS = tuple(2 ** (quarter / 4) for quarter in range(-12, 13))


@dataclass(frozen=True, slots=True)
class MeasuredCosts:
    """What a job or a cohort did in a window."""

    window_us: int
    training_us: int  #: in the period ``training``
    training_weighted_us: int  #: times accelerators, of jobs whose accelerators are known
    failures: int  #: all of them
    infra_failures: int
    saves: Tally  #: how long each save stopped the loop
    gaps_us: Sequence[int]  #: between neighbouring checkpoints of an attempt

    @classmethod
    def of(cls, totals: Totals, window_us: int, gaps_us: Sequence[int]) -> "MeasuredCosts":
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
class IntervalGain:
    """What the best interval would have gained over the present one."""

    wasted_ratio: float  #: of the training time
    gpu_hours: float | None  #: in the window; None where all accelerators are unknown
    gpu_hours_a_year: float | None  #: at the same rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Durations in seconds, ratios of the training time; None is what was not measured."""

    counted: CountedFailures
    measured: MeasuredCosts
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
    gain: IntervalGain | None = None


def advise(measured: MeasuredCosts, counted: CountedFailures = "all") -> Advice:
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
    advice = Advice(
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
        return advice
    (least,) = points(best.value)
    band = flat_band_seconds(training, failures, save.value)
    return replace(
        advice,
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


def _gain(measured: MeasuredCosts, wasted: float) -> IntervalGain:
    wasted = max(0.0, wasted)  # at the best interval rounding may leave less than nothing
    if not measured.training_weighted_us:
        return IntervalGain(wasted, None, None)
    hours = wasted * measured.training_weighted_us / HOUR_US
    return IntervalGain(wasted, hours, hours * YEAR_US / measured.window_us)


def _reason(measured: MeasuredCosts) -> str:
    if not measured.training_us:
        return "Nothing trained."
    if not measured.saves.us:
        return "No save stopped the loop: what a save costs is not measured."
    return "Nothing failed: the best interval is known from below only."


def _assumption(interval_in_mtbf: float | None) -> str:
    share = "" if interval_in_mtbf is None else f" (here {interval_in_mtbf:.1%} of it)"
    return (
        f"F*I/2 holds for intervals short against the time between failures{share}. Each failure "
        "loses half an interval, also before a loop. Failures come at random, at the measured "
        "rate, whatever the interval. Checkpoints block the loop for as long as measured. Bounds "
        "combine those of the failures (Poisson) and of the mean save (Student) as the root of "
        "squares of their logarithms."
    )


_MEASURES = (
    PLAIN.periods[Period.TRAINING],
    WEIGHTED.periods[Period.TRAINING],
    "failures",
    "infra_failures",
)


@dataclass(frozen=True, slots=True)
class GroupAdvice:
    """Advice for a group of cohorts."""

    labels: Mapping[str, str]  #: by dimension that was grouped by; ``""`` is unknown
    other: bool  #: whether it is what the cap on cohorts left over
    advice: Advice


def job_advice(
    conn: Connection, project_id: int, job: str, ledger: JobLedger, counted: CountedFailures = "all"
) -> Advice:
    """Advise for one job, from all of its life."""
    by_machine = job_totals(conn, project_id, job, measures=_MEASURES)
    sums = sum(by_machine.values(), Totals.ZERO)
    saves = job_tally(conn, project_id, job, CHECKPOINT_BLOCKING)
    totals = Totals(sums.sums, {CHECKPOINT_BLOCKING: saves})
    gaps_us = job_gaps(ledgers.checkpoints(conn, project_id, job))
    return advise(MeasuredCosts.of(totals, ledger.e2e_us, gaps_us), counted)


def job_gaps(checkpoints: Sequence[Checkpoint]) -> list[int]:
    """Return the microseconds between neighbouring checkpoints of each attempt."""
    ordered = sorted(checkpoints, key=lambda checkpoint: (checkpoint.number, checkpoint.saved_at))
    return [
        later.saved_at - earlier.saved_at
        for earlier, later in pairwise(ordered)
        if earlier.number == later.number and earlier.saved_at < later.saved_at
    ]


def fleet_advice(
    conn: Connection, scope: Scope, window: Window, counted: CountedFailures = "all"
) -> tuple[Advice, list[GroupAdvice]]:
    """Advise for all of *scope*, and for each of its groups, most to gain first."""
    grouped = (*scope.group_by, "other") if scope.group_by else ()
    by_place = rollups.totals(conn, scope.cohorts, window, grouped, measures=_MEASURES)
    together = sum(by_place.values(), Totals.ZERO)
    latest = latest_part(window, together.tally(CHECKPOINT_BLOCKING).n)
    gaps = cohort_gaps(conn, scope.cohorts, latest, scope.group_by)
    length_us = window.to_us - window.from_us
    groups = []
    for (_, labels), totals in by_place.items():
        if not grouped:
            continue
        *values, other = labels
        own = [] if other else gaps.get(tuple(values), [])
        groups.append(
            GroupAdvice(
                dict(zip(scope.group_by, values, strict=True)),
                bool(other),
                advise(MeasuredCosts.of(totals, length_us, own), counted),
            )
        )
    groups.sort(key=_rank)
    all_gaps = [gap for each in gaps.values() for gap in each]
    return advise(MeasuredCosts.of(together, length_us, all_gaps), counted), groups


def latest_part(window: Window, saves: int) -> Window:
    """Cut a window that holds so many *saves* down to where twice ``MOST_GAPS`` of them should lie.

    A week of thousands of jobs has millions, of which the latest will do.
    """
    if saves <= 2 * MOST_GAPS:
        return window
    length_us = (window.to_us - window.from_us) * 2 * MOST_GAPS // saves
    start_us = window.to_us - length_us
    return Window(start_us - start_us % HOUR_US, window.to_us)


def _rank(group: GroupAdvice) -> tuple[bool, float, float, tuple[str, ...]]:
    gain = group.advice.gain
    wasted = 0.0 if gain is None else gain.wasted_ratio
    hours = 0.0 if gain is None else gain.gpu_hours or 0.0
    return group.other, -hours, -wasted, tuple(group.labels.values())
