"""Other detectors see what was known by each day, and report each change once."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import simulate
from benchmarks.detectors.fleets.parameters import CHANGED_ON, DAYS
from benchmarks.detectors.fleets.scenario import Scenario, ScenarioKind
from benchmarks.detectors.otava import Otava, OtavaMissing
from benchmarks.detectors.peers import (
    FIRST_DAY,
    DailySeries,
    Grain,
    by_change_points,
    by_cusum,
    by_threshold,
    daily,
    pelt,
)
from benchmarks.detectors.trials import DetectorAlert
from ett_service.core.regressions.finding import Series, Verdict

SERIES = Series(parameters.TIME_TO_START, parameters.COHORTS[0])


@pytest.fixture(scope="module")
def otava() -> Iterator[Otava]:
    try:
        started = Otava()
    except OtavaMissing as missing:
        pytest.skip(f"{missing}: {missing.hint}")
    with started:
        yield started


def _step(factor: float, seed: int = 1) -> DailySeries:
    """Days of about a minute, *factor* times as long from the change on."""
    logs = np.random.default_rng(seed).normal(math.log(60), 0.05, DAYS)
    logs[CHANGED_ON:] += math.log(factor)
    return DailySeries([SERIES], np.exp(logs)[None, :])


def _at_the_step(alerts: Iterable[DetectorAlert]) -> list[DetectorAlert]:
    """Return the alerts on the step; detectors find change points in noise, too."""
    return [
        alert for alert in alerts if alert.onset is not None and abs(alert.onset - CHANGED_ON) <= 3
    ]


def test_pelt_reports_a_step_once_within_days_and_where_it_is() -> None:
    (alert,) = _at_the_step(by_change_points(_step(1.6), pelt()))
    assert (alert.series, alert.verdict) == (SERIES, Verdict.REGRESSION)
    assert CHANGED_ON <= alert.day <= CHANGED_ON + 4
    (better,) = _at_the_step(by_change_points(_step(1 / 1.6), pelt()))
    assert better.verdict is Verdict.IMPROVEMENT


def test_pelt_is_that_of_ruptures_own_search() -> None:
    from ruptures import Pelt  # noqa: PLC0415 - of developers' installations only

    logs = np.log(_step(1.3).medians[0])
    steps = np.abs(np.diff(logs))
    scaled = logs / (1.4826 * np.median(steps) / np.sqrt(2))
    ends = Pelt(model="l2", min_size=3, jump=1).fit(scaled).predict(pen=2 * np.log(DAYS))
    (points,) = pelt()([np.exp(logs)])
    assert [point.index for point in points] == ends[:-1]


@pytest.mark.slow
def test_otava_reports_a_step_once_within_days_and_where_it_is(otava: Otava) -> None:
    (alert,) = _at_the_step(by_change_points(_step(1.6), otava.change_points))
    assert alert.onset == CHANGED_ON
    assert CHANGED_ON <= alert.day <= CHANGED_ON + 6
    several = otava.change_points([_step(1.6).medians[0], np.ones(40)])
    assert CHANGED_ON in [point.index for point in several[0]]
    assert several[1] == []


def test_where_there_is_no_otava_it_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(OtavaMissing) as raised:
        Otava(tmp_path)
    assert "pip install --no-deps --target" in raised.value.hint


def test_cusum_adds_up_small_steps_and_starts_again() -> None:
    alerts = list(by_cusum(_step(1.2)))
    assert alerts
    assert CHANGED_ON <= alerts[0].day < CHANGED_ON + 4
    assert not list(by_cusum(_step(1 / 1.2)))


def test_a_week_over_the_limit_is_reported_once() -> None:
    medians = np.full(DAYS, 60.0)
    medians[CHANGED_ON:] = 90.0
    alerts = list(by_threshold(DailySeries([SERIES], medians[None, :])))
    assert [(alert.day, alert.onset) for alert in alerts] == [(CHANGED_ON + 2, CHANGED_ON - 4)]
    assert not list(by_threshold(DailySeries([SERIES], np.full((1, DAYS), np.nan))))


def test_what_is_found_on_the_first_day_is_only_reported_if_it_is_new() -> None:
    old = np.full(DAYS, 60.0) * np.exp(np.random.default_rng(2).normal(0, 0.02, DAYS))
    old[20:] *= 2
    assert FIRST_DAY - 20 > 14
    alerts = by_change_points(DailySeries([SERIES], old[None, :]), pelt())
    assert not [
        alert for alert in alerts if alert.onset is not None and alert.onset < FIRST_DAY - 14
    ]


def test_days_without_values_are_left_out_and_places_are_still_days() -> None:
    daily_series = _step(1.6)
    daily_series.medians[0, [10, 11, 50]] = math.nan
    (alert,) = _at_the_step(by_change_points(daily_series, pelt()))
    assert alert.day >= CHANGED_ON


def test_series_by_day_are_medians_of_what_became_known_on_it() -> None:
    fleet = simulate(3, Scenario(ScenarioKind.NULL, 60))
    counts: Sequence[int] = [len(daily(fleet, grain).series) for grain in Grain]
    assert counts == [1, len(parameters.COHORTS), len(parameters.COHORTS) * len(parameters.PHASES)]
    daily_series = daily(fleet, Grain.CELL)
    place = daily_series.series.index(Series(parameters.PHASES[2].subject, parameters.COHORTS[1]))
    durations = fleet.sample(33).durations[parameters.PHASES[2].subject]
    rows = (durations.cohort == 1) & (durations.day == 33)
    assert daily_series.medians[place, 33] == pytest.approx(
        float(np.median(durations.us[rows])) / 1e6
    )
