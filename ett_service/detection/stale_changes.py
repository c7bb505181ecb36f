"""Changes that began before the recent days, which no search reports, and cohorts that are gone."""

from collections.abc import Iterable

import numpy as np

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Finding, Metric, Series, Subject
from ett_service.core.words import Category
from ett_service.detection.models.residuals import logarithms
from ett_service.detection.models.series_model import medians
from ett_service.detection.observed.sample import Durations, Flags, Floats, Sample
from ett_service.detection.window import within

_NEAR_DAYS = 3  #: from the edge of the recent window on, where an older change may be placed
_BEFORE_DAYS = 7
_LATEST_VALUES = 8  #: durations before the onset whose median is their level
_FEWEST_VALUES = 4


def is_stale(finding: Finding, sample: Sample, recent_days: int) -> bool:
    """Tell whether a change began before the recent window.

    It did if the level before its onset, of a week at most, is nearer to the level after than to
    the one before.
    """
    onset = _day(finding.onset_us, sample)
    edge = sample.days - recent_days
    if onset < edge:
        return True
    if onset > edge + _NEAR_DAYS:
        return False
    inside, since = within(sample.cohorts, finding.series.cohort), onset - _BEFORE_DAYS
    before, last, after = (
        _level(finding.series.subject, sample, inside, days, latest)
        for days, latest in (
            ((_day(finding.before.from_us, sample), since), 0),
            ((since, onset), _LATEST_VALUES),
            ((onset, sample.days), 0),
        )
    )
    if before is None or last is None or after is None:
        return False
    return abs(last - after) < abs(last - before)


def gone(sample: Sample, series: Iterable[Series], recent_days: int) -> tuple[Series, ...]:
    """Return those of *series* of whose cohort nothing ran in the recent days."""
    shares = sample.shares
    if shares is None:
        return ()
    ran = np.zeros(len(sample.cohorts), dtype=np.bool_)
    ran[shares.cohort[shares.day >= sample.days - recent_days]] = True
    return tuple(each for each in series if not (ran & within(sample.cohorts, each.cohort)).any())


def _day(at_us: int, sample: Sample) -> int:
    return (at_us - sample.first_day_us) // DAY_US


def _level(
    subject: Subject, sample: Sample, inside: Flags, days: tuple[int, int], latest: int
) -> float | None:
    """Return a subject's level on some days, for durations that of the *latest* (0: of all).

    None where there are too few values.
    """
    if days[0] >= days[1]:
        return None
    if subject.metric is Metric.ETT_RATIO:
        return _ett_ratio(sample, inside, days)
    if subject.metric is Metric.FAILURES_PER_GPU_HOUR:
        return _failure_rate(subject, sample, inside, days)
    values = sample.durations[subject]
    chosen = inside[values.cohort] & (values.day >= days[0]) & (values.day < days[1])
    if subject.metric is Metric.CACHE_MISS_RATIO:
        level = values.us[chosen].astype(np.float64)
        return float(np.mean(level)) if len(level) >= _FEWEST_VALUES else None
    log = (logarithms(values.us) - _of_setting(subject, values))[chosen][-latest:]
    return float(np.median(log)) if len(log) >= _FEWEST_VALUES else None


def _of_setting(subject: Subject, values: Durations) -> Floats:
    """Return what is taken off the logarithm of each value: of steps the median of its setting."""
    if subject.metric is not Metric.STEP_SECONDS:
        return np.zeros(len(values.us))
    stratum = values.stratum.astype(np.intp)
    return medians(logarithms(values.us), stratum, int(stratum.max(initial=-1)) + 1)[stratum]


def _failure_rate(
    subject: Subject, sample: Sample, inside: Flags, days: tuple[int, int]
) -> float | None:
    rates = sample.rates[subject]
    chosen = inside[rates.cohort] & (rates.day >= days[0]) & (rates.day < days[1])
    hours = float(rates.exposure[chosen].sum())
    return int(rates.events[chosen].sum()) / hours if hours else None


def _ett_ratio(sample: Sample, inside: Flags, days: tuple[int, int]) -> float | None:
    shares = sample.shares
    assert shares is not None
    rows = inside[shares.cohort] & (shares.day >= days[0]) & (shares.day < days[1])
    whole = sum(float(us[rows].sum()) for us in shares.by_category.values())
    effective = shares.by_category[Category.EFFECTIVE_TRAINING]
    return float(effective[rows].sum()) / whole if whole else None
