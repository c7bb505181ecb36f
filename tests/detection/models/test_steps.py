"""Step times: slower steps are found within their setting, and a new setting is no change."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.causes import explains
from ett_service.core.regressions.finding import Metric, Series, Subject
from ett_service.detection.observed.sample import ETT, Durations, Sample
from tests.detection.samples import COHORTS, COMPILE, DAYS, day_of, regressions, sample, scan_of

STEP = Subject(Metric.STEP_SECONDS)
SINCE = 46
A_DAY = 4
DAY_OF_STEPS_US = 5 * HOUR_US

Numbers = NDArray[np.int32]


def _same(_day: Numbers, cohort: Numbers) -> Numbers:
    return np.zeros_like(cohort)


def _steps(factor: float = 1.0, setting: Callable[[Numbers, Numbers], Numbers] = _same) -> Sample:
    """Four cohorts of 0.1 s a step, twice as long in each next setting; the first slows down."""
    draws = np.random.default_rng(7)
    cohort, day, _ = (
        axis.ravel().astype(np.int32) for axis in np.indices((len(COHORTS), DAYS, A_DAY))
    )
    stratum = setting(day, cohort).astype(np.int32)
    us = 100_000 * 2.0**stratum * np.exp(draws.normal(0, 0.03, len(day)))
    us[(cohort == 0) & (day >= SINCE)] *= factor
    rows = Durations(
        us=np.rint(us).astype(np.int64),
        day=day,
        cohort=cohort,
        stratum=stratum,
        unit=np.arange(len(day), dtype=np.int32),
        gpus=np.full(len(day), 8.0),
        spent_us=np.full(len(day), DAY_OF_STEPS_US),
    )
    return sample({STEP: rows})


def test_steps_a_twelfth_slower_are_found_with_cohort_and_onset() -> None:
    (finding,) = regressions(_steps(1.09))

    assert finding.series == Series(STEP, COHORTS[0])
    assert day_of(finding) == pytest.approx(SINCE, abs=1)
    assert finding.ratio == pytest.approx(1.09, abs=0.02)
    assert finding.before.median == pytest.approx(100_000, rel=0.01)


def test_they_cost_all_steps_and_not_one() -> None:
    (finding,) = regressions(_steps(1.2))

    hours = A_DAY * 7 * 8 * DAY_OF_STEPS_US / HOUR_US * (1 - 1 / 1.2)
    assert finding.impact.gpu_hours_per_week == pytest.approx(hours, rel=0.1)


def test_less_than_a_third_of_the_usual_smallest_effect_does_not_count() -> None:
    assert regressions(_steps(1.03)) == []
    smallest = {power.cohort: power.smallest for power in scan_of(_steps()).power}
    assert 1.05 < (smallest[COHORTS[0]] or 0) < 1.09


def test_a_setting_without_a_baseline_is_left_out() -> None:
    def later(day: Numbers, cohort: Numbers) -> Numbers:
        return np.asarray((cohort == 0) & (day >= SINCE), dtype=np.int32)

    assert scan_of(_steps(1.3, later)).findings == ()


def test_a_setting_that_was_rare_before_is_no_change() -> None:
    """Five values are no mean of their own and their cohort's: twice the tokens are no tail."""

    def rare(day: Numbers, cohort: Numbers) -> Numbers:
        early = (day % 8 == 0) & (np.arange(len(day)) % A_DAY == 0)
        return np.asarray((cohort == 0) & ((day >= SINCE) | early), dtype=np.int32)

    assert scan_of(_steps(setting=rare)).findings == ()


def test_more_jobs_of_a_slower_setting_are_no_change() -> None:
    def more(day: Numbers, cohort: Numbers) -> Numbers:
        often = np.where((cohort == 0) & (day >= SINCE), 4, 16)
        return np.asarray(np.arange(len(day)) % often < 3, dtype=np.int32)

    assert scan_of(_steps(setting=more)).findings == ()


def test_slower_steps_in_two_settings_are_one_finding_at_the_usual_level() -> None:
    def fourth(day: Numbers, _cohort: Numbers) -> Numbers:
        return (np.arange(len(day)) % 4 // 3).astype(np.int32)

    (finding,) = regressions(_steps(1.2, fourth))

    assert finding.ratio == pytest.approx(1.2, abs=0.03)
    assert finding.after.median == pytest.approx(120_000, rel=0.02)


def test_slower_steps_explain_no_ett_for_they_are_effective_training() -> None:
    ett = (Series(ETT, COHORTS[0]), 0)

    assert not explains((Series(STEP, COHORTS[0]), 0), ett)
    assert explains((Series(COMPILE, COHORTS[0]), 0), ett)
