from dataclasses import replace

import numpy as np
import pytest

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Finding
from ett_service.core.words import Category
from ett_service.detection.observed.sample import Sample, Shares
from tests.detection.samples import (
    COMPILE,
    DAYS,
    PHASES,
    Seconds,
    fleet,
    regressions,
    scan_of,
    slower,
)

Days = np.typing.NDArray[np.int32]


def _step(whole: Sample) -> Finding:
    (finding,) = regressions(whole)
    return finding


def test_both_sides_tell_medians_and_tails_in_microseconds() -> None:
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
