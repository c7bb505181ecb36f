"""Other detectors see what was known by each day, and tell each change once."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.detectors import makeup
from benchmarks.detectors.alert import Alert
from benchmarks.detectors.daily import Daily, Grain, daily
from benchmarks.detectors.fleet import simulate
from benchmarks.detectors.otava import Otava, OtavaMissing
from benchmarks.detectors.peers import (
    FIRST_DAY,
    by_change_points,
    by_cusum,
    by_threshold,
    pelt,
)
from benchmarks.detectors.scenario import CHANGED_ON, DAYS, Kind, Scenario
from ett_service.core.regressions.finding import Series, Verdict

SERIES = Series(makeup.TIME_TO_START, makeup.COHORTS[0])


@pytest.fixture(scope="module")
def otava() -> Iterator[Otava]:
    try:
        started = Otava()
    except OtavaMissing as missing:
        pytest.skip(f"{missing}: {missing.hint}")
    with started:
        yield started


def _step(factor: float, seed: int = 1) -> Daily:
    """Days of about a minute, *factor* times as long from the change on."""
    logs = np.random.default_rng(seed).normal(math.log(60), 0.05, DAYS)
    logs[CHANGED_ON:] += math.log(factor)
    return Daily([SERIES], np.exp(logs)[None, :])


def _at_the_step(told: Iterable[Alert]) -> list[Alert]:
    """Return what is told of the step; noise has change points of its own for them."""
    return [one for one in told if one.onset is not None and abs(one.onset - CHANGED_ON) <= 3]


def test_pelt_tells_a_step_once_within_days_and_where_it_is() -> None:
    (told,) = _at_the_step(by_change_points(_step(1.6), pelt()))
    assert (told.series, told.verdict) == (SERIES, Verdict.REGRESSION)
    assert CHANGED_ON <= told.day <= CHANGED_ON + 4
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


def test_otava_tells_a_step_once_within_days_and_where_it_is(otava: Otava) -> None:
    (told,) = _at_the_step(by_change_points(_step(1.6), otava.change_points))
    assert told.onset == CHANGED_ON
    assert CHANGED_ON <= told.day <= CHANGED_ON + 6
    several = otava.change_points([_step(1.6).medians[0], np.ones(40)])
    assert CHANGED_ON in [point.index for point in several[0]]
    assert several[1] == []


def test_where_there_is_no_otava_it_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(OtavaMissing) as raised:
        Otava(tmp_path)
    assert "pip install --no-deps --target" in raised.value.hint


def test_cusum_adds_up_small_steps_and_begins_anew() -> None:
    told = list(by_cusum(_step(1.2)))
    assert told
    assert CHANGED_ON <= told[0].day < CHANGED_ON + 4
    assert not list(by_cusum(_step(1 / 1.2)))


def test_a_week_over_the_limit_is_told_once() -> None:
    medians = np.full(DAYS, 60.0)
    medians[CHANGED_ON:] = 90.0
    told = list(by_threshold(Daily([SERIES], medians[None, :])))
    assert [(one.day, one.onset) for one in told] == [(CHANGED_ON + 2, CHANGED_ON - 4)]
    assert not list(by_threshold(Daily([SERIES], np.full((1, DAYS), np.nan))))


def test_what_is_found_on_the_first_day_is_only_told_if_it_is_new() -> None:
    old = np.full(DAYS, 60.0) * np.exp(np.random.default_rng(2).normal(0, 0.02, DAYS))
    old[20:] *= 2
    assert FIRST_DAY - 20 > 14
    told = by_change_points(Daily([SERIES], old[None, :]), pelt())
    assert not [one for one in told if one.onset is not None and one.onset < FIRST_DAY - 14]


def test_days_without_values_are_left_out_and_places_are_still_days() -> None:
    of = _step(1.6)
    of.medians[0, [10, 11, 50]] = math.nan
    (told,) = _at_the_step(by_change_points(of, pelt()))
    assert told.day >= CHANGED_ON


def test_series_by_day_are_medians_of_what_became_known_on_it() -> None:
    fleet = simulate(3, Scenario(Kind.NULL, 60))
    counts: Sequence[int] = [len(daily(fleet, grain).series) for grain in Grain]
    assert counts == [1, len(makeup.COHORTS), len(makeup.COHORTS) * len(makeup.PHASES)]
    of = daily(fleet, Grain.CELL)
    place = of.series.index(Series(makeup.PHASES[2].subject, makeup.COHORTS[1]))
    known = fleet.sample(33).durations[makeup.PHASES[2].subject]
    rows = (known.cohort == 1) & (known.day == 33)
    assert of.medians[place, 33] == pytest.approx(float(np.median(known.us[rows])) / 1e6)
