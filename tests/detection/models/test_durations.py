from dataclasses import replace

import numpy as np
import pytest

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Finding
from ett_service.core.words import Category
from ett_service.detection.sample import Sample, Shares
from tests.detection.made import COMPILE, DAYS, PHASES, fleet, looked_at, regressions, slower

Days = np.typing.NDArray[np.int32]


def _step(whole: Sample) -> Finding:
    (found,) = regressions(whole)
    return found


def test_both_sides_tell_medians_and_tails_in_microseconds() -> None:
    whole = fleet(slower(COMPILE, 1.6, 48))
    found, told = _step(whole), whole.durations[COMPILE]
    late = (told.cohort == 0) & (told.day >= 48)
    assert found.after.n == pytest.approx(late.sum(), abs=12)
    assert found.after.median == pytest.approx(np.median(told.us[late]), rel=0.05)
    assert found.after.p90 == pytest.approx(np.quantile(told.us[late], 0.9), rel=0.08)
    assert found.after.to_us == whole.as_of_us


def test_it_costs_what_takes_longer_times_the_accelerators() -> None:
    whole = fleet(slower(COMPILE, 1.6, 44))
    told = whole.durations[COMPILE]
    late = (told.cohort == 0) & (told.day >= 44)
    lost_us = told.us[late].sum() * 8 * (1 - 1 / 1.6) * 7 / (DAYS - 44)
    assert _step(whole).impact.gpu_hours_per_week == pytest.approx(lost_us / HOUR_US, rel=0.15)


def test_without_known_accelerators_attempts_count_and_hours_are_unknown() -> None:
    whole = fleet(slower(COMPILE, 1.6, 47))
    unknown = {
        subject: replace(told, gpus=np.full(len(told.us), np.nan))
        for subject, told in whole.durations.items()
    }
    found = _step(replace(whole, durations=unknown))
    parts = [gate.value for gate in found.gates if gate.name == "impact"]
    known = [gate.value for gate in _step(whole).gates if gate.name == "impact"]
    assert parts == pytest.approx(known)
    assert found.impact.gpu_hours_per_week is None


def test_the_part_is_of_all_time_of_the_project_where_that_is_known() -> None:
    whole = fleet(slower(COMPILE, 1.6, 47))
    starting = sum(float((whole.durations[one].us * 8).sum()) for one in PHASES)
    zero = np.zeros(DAYS, dtype=np.int32)
    time = np.full(DAYS, 9 * starting / DAYS)
    shares = Shares(np.arange(DAYS, dtype=np.int32), zero, {Category.STALLED.value: time})
    parts = [
        next(gate.value for gate in _step(one).gates if gate.name == "impact")
        for one in (whole, replace(whole, shares=shares))
    ]
    assert parts[0] is not None
    assert parts[1] == pytest.approx(parts[0] / 9, rel=0.1)


def test_days_that_weekends_make_quicker_are_no_change() -> None:
    def weekends(day: Days, cohort: Days, seconds: dict) -> None:  # type: ignore[type-arg]
        seconds[COMPILE][(day % 7 >= 5) & (cohort >= 0)] *= 0.6

    assert looked_at(fleet(weekends)).findings == ()


def test_a_shock_that_all_share_changes_no_cohort() -> None:
    def shocks(day: Days, cohort: Days, seconds: dict) -> None:  # type: ignore[type-arg]
        weather = np.exp(np.random.default_rng(7).normal(0, 0.25, DAYS))
        seconds[COMPILE][cohort >= 0] *= weather[day]

    assert [one.series.cohort for one in regressions(fleet(shocks)) if one.series.cohort] == []


def test_a_job_with_many_attempts_is_one_witness() -> None:
    draws = np.random.default_rng(3)
    whole = fleet(a_day=(8, 6, 6, 6))
    told = whole.durations[COMPILE]
    mine = (told.cohort == 0) & (told.day >= 44)
    unit, us = told.unit.copy(), told.us.astype(np.float64)
    unit[mine] = -1
    us[mine] *= 1.5
    jobs = draws.integers(0, 60, (~mine).sum())
    unit[~mine] = 10_000 + told.cohort[~mine] * 100 + jobs
    us[~mine] *= np.exp(draws.normal(0, 0.4, 400))[(told.cohort[~mine] * 100 + jobs) % 400]
    one_job = replace(told, unit=unit, us=us.astype(np.int64))
    assert regressions(replace(whole, durations={COMPILE: one_job})) == []
