"""A change that began before the recent days is never reported, whatever its metric."""

from dataclasses import replace

import numpy as np
import pytest

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Finding, Metric, Series, Subject
from ett_service.core.words import Category
from ett_service.detection.observed.sample import AttemptValues, Floats, Sample, Shares
from ett_service.detection.stale_changes import gone, is_stale
from tests.builders.regressions.findings import finding, side
from tests.detection.observations import TO_US, observed_project

DAYS = 60
RECENT = 14
INIT = Subject(Metric.PHASE_SECONDS, "launcher_init")
FAILED = Subject(Metric.FAILURES_PER_GPU_HOUR)
ETT = Subject(Metric.ETT_RATIO)


def _changed(ago: int) -> Sample:
    """Return the sample of a project in which all became worse so many days ago."""
    began = DAYS - ago
    observed = observed_project({INIT: lambda day: 2.0 if day >= began else 1.0})
    place = np.arange(DAYS * 6)
    day = place // 6
    fails = place % 6 < np.where(day >= began, 4, 1)
    known_us = observed.durations[INIT].known_us[fails]
    effective = np.where(np.arange(DAYS) >= began, 50.0, 90.0)
    time: dict[str, Floats] = {category: np.zeros(DAYS) for category in Category}
    time |= {Category.EFFECTIVE_TRAINING: effective, Category.STALLED: 100.0 - effective}
    none = np.zeros(len(known_us), np.int64)
    failures = AttemptValues(none, known_us, place[fails], none.astype(np.int32), none)
    changed = replace(
        observed,
        failures={FAILED: failures},
        time_day=np.arange(DAYS, dtype=np.int32),
        time_cohort=np.zeros(DAYS, dtype=np.int32),
        time=time,
    )
    return changed.sample(TO_US, DAYS)


@pytest.mark.parametrize("subject", [INIT, FAILED, ETT])
@pytest.mark.parametrize(
    ("ago", "placed", "old"),
    [
        (30, 14, True),
        (18, 14, True),
        (18, 13, True),
        (20, 15, True),
        (14, 14, False),
        (13, 13, False),
        (8, 8, False),
    ],
)
def test_an_onset_at_the_edge_is_old_if_it_was_so_before(
    subject: Subject, ago: int, placed: int, *, old: bool
) -> None:
    assert is_stale(_placed(subject, placed), _changed(ago), RECENT) is old


def test_of_durations_a_single_day_before_the_edge_tells() -> None:
    assert is_stale(_placed(INIT, 14), _changed(15), RECENT)


def _placed(subject: Subject, ago: int) -> Finding:
    """Return a finding whose onset was placed so many days ago."""
    onset_us = TO_US - ago * DAY_US
    return finding(
        subject=subject,
        onset_us=onset_us,
        before=side(TO_US - 42 * DAY_US, onset_us, 1.0),
        after=side(onset_us, TO_US, 2.0),
    )


def test_where_nothing_is_known_of_before_nothing_is_called_old() -> None:
    onset_us = TO_US - RECENT * DAY_US
    result = finding(subject=INIT, onset_us=onset_us, before=side(onset_us, onset_us, 1.0))
    assert not is_stale(result, _changed(30), RECENT)


def test_a_cohort_of_which_nothing_ran_of_late_is_gone() -> None:
    sample = _changed(30)
    assert sample.shares is not None
    (cohort,) = sample.cohorts
    series = Series(INIT, cohort)
    assert gone(sample, [series], RECENT) == ()

    early = np.flatnonzero(sample.shares.day < DAYS - RECENT)
    ended = Shares(
        sample.shares.day[early],
        sample.shares.cohort[early],
        {name: held[early] for name, held in sample.shares.by_category.items()},
    )
    assert gone(replace(sample, shares=ended), [series], RECENT) == (series,)
