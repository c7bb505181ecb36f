"""Other detectors with their usual settings, run once a day on series of one value a day.

Each sees what was known by then. A change point is reported once if values get worse and it lies
in the last two weeks; one within ``_SAME_DAYS`` of an earlier one is the same.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from itertools import pairwise

import numpy as np

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import SimulatedFleet
from benchmarks.detectors.fleets.observations import SubjectDurations
from benchmarks.detectors.fleets.parameters import DAYS
from benchmarks.detectors.otava import ChangePoint
from benchmarks.detectors.scoring import QUIET_UNTIL, WITHIN_DAYS
from benchmarks.detectors.trials import DetectorAlert
from ett_service.core.regressions.finding import Series, Verdict
from ett_service.detection.sample import Flags, Floats

FIRST_DAY = QUIET_UNTIL - 1
"""The first day on which detectors run; what they find on it is old."""

FindChangePoints = Callable[[Sequence[Floats]], Sequence[Sequence[ChangePoint]]]
"""Finds the change points of several series at once."""

THRESHOLD = 1.2  #: the mean of a week's medians over that of the week before
CUSUM_DECISION = 5.0  #: standard deviations (Montgomery, Statistical Quality Control: h)
_CUSUM_SLACK = 0.5  #: likewise: k
_SAME_DAYS = 3
_FEWEST = 10  #: values that a series needs
_WEEK = 7
_BASELINE_DAYS = 28
_MAD_TO_SIGMA = 1.4826


class Grain(StrEnum):
    """What one daily series is of."""

    FLEET = auto()  #: time to start of all attempts
    COHORT = auto()  #: time to start by cohort
    CELL = auto()  #: each phase by cohort


@dataclass(frozen=True, slots=True)
class DailySeries:
    """Medians by day in seconds, a series a row; NaN on days without values."""

    series: Sequence[Series]
    medians: Floats


def daily(fleet: SimulatedFleet, grain: Grain, days: int = DAYS) -> DailySeries:
    """Take the median of what became known on each of the first *days*: it never changes later."""
    rows = list(_rows(fleet, grain))
    medians = np.array([medians for _, medians in rows])
    return DailySeries([series for series, _ in rows], medians[:, :days])


def _rows(fleet: SimulatedFleet, grain: Grain) -> Iterator[tuple[Series, Floats]]:
    if grain is Grain.FLEET:
        every = fleet.durations[parameters.TIME_TO_START]
        all_rows = np.ones(len(every.durations.us), dtype=np.bool_)
        yield Series(parameters.TIME_TO_START, ()), _medians(every, all_rows)
        return
    subjects = [parameters.TIME_TO_START]
    if grain is Grain.CELL:
        subjects = [phase.subject for phase in parameters.PHASES]
    for subject in subjects:
        every = fleet.durations[subject]
        for index, cohort in enumerate(fleet.truth.scenario.shape.plan.cohorts):
            yield Series(subject, cohort), _medians(every, every.durations.cohort == index)


def _medians(every: SubjectDurations, rows: Flags) -> Floats:
    seconds, day = every.durations.us[rows] / 1e6, every.durations.day[rows]
    ends = np.searchsorted(day, np.arange(DAYS + 1))
    groups = [seconds[begin:end] for begin, end in pairwise(ends)]
    return np.array([np.median(group) if len(group) else np.nan for group in groups])


def by_change_points(daily_series: DailySeries, find: FindChangePoints) -> Iterator[DetectorAlert]:
    """Run a finder of change points every day."""
    medians = daily_series.medians
    reported: list[list[int]] = [[] for _ in daily_series.series]
    for day in range(FIRST_DAY, medians.shape[1]):
        days = [np.flatnonzero(~np.isnan(row[: day + 1])) for row in medians]
        rows = [row for row, with_values in enumerate(days) if len(with_values) >= _FEWEST]
        change_points = find([medians[row][days[row]] for row in rows])
        for row, points in zip(rows, change_points, strict=True):
            for point in points:
                onset = int(days[row][point.index])
                if onset > day - WITHIN_DAYS and _is_new(onset, reported[row]):
                    reported[row].append(onset)
                    yield DetectorAlert(day, daily_series.series[row], _verdict(point), onset)


def _is_new(onset: int, reported: Sequence[int]) -> bool:
    return all(abs(onset - earlier) > _SAME_DAYS for earlier in reported)


def _verdict(point: ChangePoint) -> Verdict:
    return Verdict.REGRESSION if point.after > point.before else Verdict.IMPROVEMENT


def by_threshold(daily_series: DailySeries, limit: float = THRESHOLD) -> Iterator[DetectorAlert]:
    """Compare each week with the week before; what stays over the limit is reported once."""
    medians = daily_series.medians
    over = np.zeros(len(medians), dtype=np.bool_)
    for day in range(FIRST_DAY, medians.shape[1]):
        week = _mean(medians[:, day + 1 - _WEEK : day + 1])
        week_before = _mean(medians[:, day + 1 - 2 * _WEEK : day + 1 - _WEEK])
        high = week > limit * week_before
        for row in np.flatnonzero(high & ~over).tolist():
            yield DetectorAlert(day, daily_series.series[row], onset=day + 1 - _WEEK)
        over = high


def _mean(medians: Floats) -> Floats:
    with_values = ~np.isnan(medians)
    count = with_values.sum(axis=1)
    total = np.where(with_values, medians, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def by_cusum(
    daily_series: DailySeries, decision: float = CUSUM_DECISION
) -> Iterator[DetectorAlert]:
    """Sum up how far each day's logarithm lies over the four weeks before; Page (1954).

    The sum starts again at 0 after an alert.
    """
    for series, medians in zip(daily_series.series, daily_series.medians, strict=True):
        logs = np.log(medians)
        total, onset = 0.0, FIRST_DAY
        for day in range(_BASELINE_DAYS, len(medians)):
            baseline = logs[day - _BASELINE_DAYS : day]
            baseline = baseline[~np.isnan(baseline)]
            if len(baseline) < _FEWEST or np.isnan(logs[day]):
                continue
            middle = np.median(baseline)
            spread = _MAD_TO_SIGMA * np.median(np.abs(baseline - middle))
            if not total:
                onset = day
            total = max(0.0, total + (logs[day] - middle) / spread - _CUSUM_SLACK)
            if total > decision:
                total = 0.0
                yield DetectorAlert(day, series, onset=onset)


def pelt(penalty: float | None = None, smallest: int = 3) -> FindChangePoints:
    """Return PELT (Killick et al., 2012) of ruptures, for shifts of the mean of logarithms.

    Series are divided by their spread between neighbours, so that the usual penalty of
    ``2 ln(n)``, Schwarz's for a mean and its position, means the same for each.
    """
    from ruptures import KernelCPD  # noqa: PLC0415 - of developers' installations only

    def find(several: Sequence[Floats]) -> list[list[ChangePoint]]:
        return [_change_points(KernelCPD, values, penalty, smallest) for values in several]

    return find


def _change_points(
    finder: Callable[..., object], values: Floats, penalty: float | None, smallest: int
) -> list[ChangePoint]:
    logs = np.log(values)
    spread = float(_MAD_TO_SIGMA * np.median(np.abs(np.diff(logs))) / np.sqrt(2))
    if spread <= 0:
        return []
    cost = 2 * np.log(len(logs)) if penalty is None else penalty
    fitted = finder(kernel="linear", min_size=smallest).fit(logs / spread)  # type: ignore[attr-defined]
    ends = [0, *fitted.predict(pen=cost)]
    means = [logs[begin:end].mean() for begin, end in pairwise(ends)]
    return [
        ChangePoint(int(index), float(before), float(after))
        for index, before, after in zip(ends[1:-1], means, means[1:], strict=False)
    ]
