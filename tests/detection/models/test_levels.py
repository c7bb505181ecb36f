from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Finding, Metric, Series, Subject, explains
from ett_service.core.words import Category
from ett_service.detection.sample import Durations, Sample, Shares
from tests.detection.samples import (
    COHORTS,
    COMPILE,
    DAYS,
    PHASES,
    Seconds,
    day_of,
    fleet,
    regressions,
    sample,
    scan_of,
    slower,
)

Days = np.typing.NDArray[np.int32]

STEP = Subject(Metric.STEP_SECONDS)
SINCE = 46
A_DAY = 4
DAY_OF_STEPS_US = 5 * HOUR_US

Numbers = NDArray[np.int32]

ETT_SUBJECT = Subject(Metric.ETT_RATIO)


def _step(whole: Sample) -> Finding:
    (finding,) = regressions(whole)
    return finding


def test_both_sides_have_medians_and_tails_in_microseconds() -> None:
    whole = fleet(slower(COMPILE, 1.6, 48))
    finding, rows = _step(whole), whole.durations[COMPILE]
    late = (rows.cohort == 0) & (rows.day >= 48)
    assert finding.after.n == pytest.approx(late.sum(), abs=12)
    assert finding.after.median == pytest.approx(np.median(rows.us[late]), rel=0.05)
    assert finding.after.p90 == pytest.approx(np.quantile(rows.us[late], 0.9), rel=0.08)
    assert finding.after.to_us == whole.as_of_us


def test_the_ratio_of_the_means_stands_beside_that_of_the_middle() -> None:
    step = _step(fleet(slower(COMPILE, 1.6, 48)))
    assert step.mean_ratio == pytest.approx(step.ratio, rel=0.1)

    def change(day: Days, cohort: Days, seconds: Seconds) -> None:
        slower(COMPILE, 1.6, 46)(day, cohort, seconds)
        late = np.flatnonzero((cohort == 0) & (day >= 46))
        seconds[COMPILE][late[::10]] *= 10.0

    tails = _step(fleet(change))
    assert tails.ratio == pytest.approx(1.6, rel=0.15)
    assert tails.mean_ratio == pytest.approx(1.6 * 1.9, rel=0.15)


def test_it_costs_what_takes_longer_times_the_accelerators() -> None:
    whole = fleet(slower(COMPILE, 1.6, 44))
    rows = whole.durations[COMPILE]
    late = (rows.cohort == 0) & (rows.day >= 44)
    lost_us = rows.us[late].sum() * 8 * (1 - 1 / 1.6) * 7 / (DAYS - 44)
    assert _step(whole).impact.gpu_hours_per_week == pytest.approx(lost_us / HOUR_US, rel=0.15)


def test_without_known_accelerators_attempts_count_and_hours_are_unknown() -> None:
    whole = fleet(slower(COMPILE, 1.6, 47))
    unknown = {
        subject: replace(rows, gpus=np.full(len(rows.us), np.nan))
        for subject, rows in whole.durations.items()
    }
    finding = _step(replace(whole, durations=unknown))
    parts = [gate.value for gate in finding.gates if gate.name == "impact"]
    priced = [gate.value for gate in _step(whole).gates if gate.name == "impact"]
    assert parts == pytest.approx(priced)
    assert finding.impact.gpu_hours_per_week is None


def test_the_part_is_of_all_time_of_the_project_where_that_is_known() -> None:
    whole = fleet(slower(COMPILE, 1.6, 47))
    starting = sum(float((whole.durations[phase].us * 8).sum()) for phase in PHASES)
    zero = np.zeros(DAYS, dtype=np.int32)
    time = np.full(DAYS, 9 * starting / DAYS)
    shares = Shares(np.arange(DAYS, dtype=np.int32), zero, {Category.STALLED.value: time})
    parts = [
        next(gate.value for gate in _step(each).gates if gate.name == "impact")
        for each in (whole, replace(whole, shares=shares))
    ]
    assert parts[0] is not None
    assert parts[1] == pytest.approx(parts[0] / 9, rel=0.1)


def test_days_that_weekends_make_quicker_are_no_change() -> None:
    def weekends(day: Days, cohort: Days, seconds: dict) -> None:  # type: ignore[type-arg]
        seconds[COMPILE][(day % 7 >= 5) & (cohort >= 0)] *= 0.6

    assert scan_of(fleet(weekends)).findings == ()


def test_a_shock_that_all_share_changes_no_cohort() -> None:
    def shocks(day: Days, cohort: Days, seconds: dict) -> None:  # type: ignore[type-arg]
        weather = np.exp(np.random.default_rng(7).normal(0, 0.25, DAYS))
        seconds[COMPILE][cohort >= 0] *= weather[day]

    assert [
        finding.series.cohort for finding in regressions(fleet(shocks)) if finding.series.cohort
    ] == []


def test_a_job_with_many_attempts_is_one_witness() -> None:
    draws = np.random.default_rng(3)
    whole = fleet(a_day=(8, 6, 6, 6))
    rows = whole.durations[COMPILE]
    mine = (rows.cohort == 0) & (rows.day >= 44)
    unit, us = rows.unit.copy(), rows.us.astype(np.float64)
    unit[mine] = -1
    us[mine] *= 1.5
    jobs = draws.integers(0, 60, (~mine).sum())
    unit[~mine] = 10_000 + rows.cohort[~mine] * 100 + jobs
    us[~mine] *= np.exp(draws.normal(0, 0.4, 400))[(rows.cohort[~mine] * 100 + jobs) % 400]
    one_job = replace(rows, unit=unit, us=us.astype(np.int64))
    assert regressions(replace(whole, durations={COMPILE: one_job})) == []


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
    ett = (Series(ETT_SUBJECT, COHORTS[0]), 0)

    assert not explains((Series(STEP, COHORTS[0]), 0), ett)
    assert explains((Series(COMPILE, COHORTS[0]), 0), ett)
