"""Levels by cohort and day, and how far days differ."""

import numpy as np
import pytest

from ett_service.detection.cells import Cells, Pooled, centred, day_variance
from ett_service.detection.sample import Floats

DAYS, BASELINE, SERIES, ROWS = 56, 42, 300, 4.0
OF_DAYS = 0.3  #: standard deviation of the conditions of a day; that of a row is 1


def _cells(level: Floats, fitted: float) -> Cells:
    rows, ones = np.full(level.shape, ROWS), np.ones(len(level))
    weekday = np.arange(level.shape[1]) % 7
    count = rows.astype(np.int64)
    return centred(Cells(level, rows, rows, count, ones, fitted * ones, BASELINE, weekday))


@pytest.mark.parametrize("fitted", [1.0, 0.6])
def test_rows_that_are_fitted_hide_nothing_of_the_variance_between_days(fitted: float) -> None:
    """A baseline of few rows by stratum lies near what is fitted to it; days differ as much."""
    draws = np.random.default_rng(2)
    of_rows = draws.normal(0, np.sqrt(fitted / ROWS), (SERIES, DAYS))
    cells = _cells(draws.normal(0, OF_DAYS, (SERIES, DAYS)) + of_rows, fitted)
    pooled = Pooled.of(np.eye(SERIES), cells)
    found = day_variance(pooled.level, pooled, BASELINE, np.ones(SERIES, dtype=np.bool_))
    assert float(np.median(found)) == pytest.approx(OF_DAYS**2, rel=0.2)
    assert pooled.precision(found)[0, -1] == pytest.approx(1 / (1 / ROWS + found[0]))


def _of_days(spread: Floats, seed: int) -> Floats:
    """Return the variance that is found where days of each series *spread* so much."""
    draws = np.random.default_rng(seed)
    of_rows = draws.normal(0, np.sqrt(1 / ROWS), (len(spread), DAYS))
    conditions = draws.normal(0, 1, (len(spread), DAYS)) * spread[:, None]
    pooled = Pooled.of(np.eye(len(spread)), _cells(conditions + of_rows, 1.0))
    single = np.ones(len(spread), dtype=np.bool_)
    return day_variance(pooled.level, pooled, BASELINE, single)


def test_series_that_differ_by_chance_have_one_variance_between_days() -> None:
    found = [_of_days(np.full(8, OF_DAYS), seed) for seed in range(60)]
    assert float(np.mean(found)) == pytest.approx(OF_DAYS**2, rel=0.03)


def test_a_series_whose_days_differ_more_keeps_its_own_variance() -> None:
    found = np.mean([_of_days(np.array([1.0, *[OF_DAYS] * 7]), seed) for seed in range(60)], axis=0)
    assert found[0] == pytest.approx(1.0, abs=0.2)
    assert found[1:].max() < 0.3


def test_levels_are_beside_the_mean_of_their_baseline() -> None:
    cells = _cells(np.random.default_rng(3).normal(5.0, 1.0, (3, DAYS)), 1.0)
    assert cells.level[:, :BASELINE].mean(axis=1) == pytest.approx(0.0)


def test_a_cohort_without_a_baseline_weighs_nothing() -> None:
    rows = np.full((2, DAYS), ROWS)
    rows[1, :BASELINE] = 0.0
    ones = np.ones(2)
    new = Cells(0 * rows, rows, rows, rows.astype(np.int64), ones, ones, BASELINE, np.arange(DAYS))
    assert not centred(new).weight[1].any()


def test_a_change_is_taken_off_its_own_cohorts_alone() -> None:
    level = np.zeros((2, DAYS))
    level[:, 50:] = 1.0
    left = _cells(level, 1.0).shifted(np.array([1.0, 0.0]), 50, DAYS).level
    assert np.ptp(left[0]) == pytest.approx(0.0)
    assert np.ptp(left[1]) == pytest.approx(1.0)
