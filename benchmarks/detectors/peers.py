"""Other detectors, with the settings that they come with, run once a day on series of that day.

Each sees what was known by then. Of change points, one that gets worse and lies in the last two
weeks is told once; one within ``_SAME_DAYS`` of an earlier one is that one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.detectors.alert import Alert
from benchmarks.detectors.arrivals import Floats
from benchmarks.detectors.daily import Daily
from benchmarks.detectors.otava import ChangePoint
from benchmarks.detectors.scoring import QUIET_UNTIL, WITHIN_DAYS
from ett_service.core.regressions.finding import Verdict

FIRST_DAY = QUIET_UNTIL - 1
"""The first day that is looked at; what is found on it is old."""

Find = Callable[[Sequence[Floats]], Sequence[Sequence[ChangePoint]]]
"""Finds the change points of several series at once."""

THRESHOLD = 1.2  #: the mean of a week's medians over that of the week before
CUSUM_DECISION = 5.0  #: standard deviations (Montgomery, Statistical Quality Control: h)
_CUSUM_SLACK = 0.5  #: likewise: k
_SAME_DAYS = 3
_FEWEST = 10  #: values, for a series to be looked at
_WEEK = 7
_BASELINE_DAYS = 28
_MAD_TO_SIGMA = 1.4826


@dataclass
class _Told:
    """What has been told of one series."""

    days: list[int]

    def is_new(self, day: int) -> bool:
        """Tell it once."""
        if any(abs(day - other) <= _SAME_DAYS for other in self.days):
            return False
        self.days.append(day)
        return True


def by_change_points(of: Daily, find: Find) -> Iterator[Alert]:
    """Run a finder of change points every day."""
    told = [_Told([]) for _ in of.series]
    for day in range(FIRST_DAY, of.medians.shape[1]):
        seen = [np.flatnonzero(~np.isnan(row[: day + 1])) for row in of.medians]
        places = [place for place, days in enumerate(seen) if len(days) >= _FEWEST]
        found = find([of.medians[place][seen[place]] for place in places])
        for place, points in zip(places, found, strict=True):
            for point in points:
                onset = int(seen[place][point.index])
                if onset > day - WITHIN_DAYS and told[place].is_new(onset):
                    yield Alert(day, of.series[place], _verdict(point), onset)


def _verdict(point: ChangePoint) -> Verdict:
    return Verdict.REGRESSION if point.after > point.before else Verdict.IMPROVEMENT


def by_threshold(of: Daily, limit: float = THRESHOLD) -> Iterator[Alert]:
    """Hold each week against the week before; what stays over the limit is told once."""
    over = np.zeros(len(of.series), dtype=np.bool_)
    for day in range(FIRST_DAY, of.medians.shape[1]):
        now = _mean(of.medians[:, day + 1 - _WEEK : day + 1])
        before = _mean(of.medians[:, day + 1 - 2 * _WEEK : day + 1 - _WEEK])
        high = now > limit * before
        for place in np.flatnonzero(high & ~over).tolist():
            yield Alert(day, of.series[place], onset=day + 1 - _WEEK)
        over = high


def _mean(medians: Floats) -> Floats:
    some = ~np.isnan(medians)
    count = some.sum(axis=1)
    total = np.where(some, medians, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def by_cusum(of: Daily, decision: float = CUSUM_DECISION) -> Iterator[Alert]:
    """Sum up how far each day's logarithm lies over the four weeks before; Page (1954).

    The sum begins anew with an alert.
    """
    for series, medians in zip(of.series, of.medians, strict=True):
        logs = np.log(medians)
        total, since = 0.0, FIRST_DAY
        for day in range(_BASELINE_DAYS, of.medians.shape[1]):
            usual = logs[day - _BASELINE_DAYS : day]
            usual = usual[~np.isnan(usual)]
            if len(usual) < _FEWEST or np.isnan(logs[day]):
                continue
            middle = np.median(usual)
            spread = _MAD_TO_SIGMA * np.median(np.abs(usual - middle))
            if not total:
                since = day
            total = max(0.0, total + (logs[day] - middle) / spread - _CUSUM_SLACK)
            if total > decision:
                total = 0.0
                yield Alert(day, series, onset=since)


def pelt(penalty: float | None = None, smallest: int = 3) -> Find:
    """Return PELT (Killick et al., 2012) of ruptures, for shifts of the mean of logarithms.

    Series are divided by their spread between neighbours, so that the usual penalty of
    ``2 ln(n)``, that of Schwarz for a mean and a place, means the same for each.
    """
    from ruptures import KernelCPD  # noqa: PLC0415 - of developers' installations only

    def find(several: Sequence[Floats]) -> list[list[ChangePoint]]:
        return [_points(KernelCPD, values, penalty, smallest) for values in several]

    return find


def _points(
    finder: Callable[..., object], values: Floats, penalty: float | None, smallest: int
) -> list[ChangePoint]:
    logs = np.log(values)
    steps = np.abs(np.diff(logs))
    spread = float(_MAD_TO_SIGMA * np.median(steps) / np.sqrt(2))
    if spread <= 0:
        return []
    usual = 2 * np.log(len(logs)) if penalty is None else penalty
    fitted = finder(kernel="linear", min_size=smallest).fit(logs / spread)  # type: ignore[attr-defined]
    ends = [0, *fitted.predict(pen=usual)]
    parts = [logs[begin:end].mean() for begin, end in pairwise(ends)]
    return [
        ChangePoint(int(place), float(before), float(after))
        for place, before, after in zip(ends[1:-1], parts, parts[1:], strict=False)
    ]
