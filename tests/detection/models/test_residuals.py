from dataclasses import replace

import numpy as np
import pytest

from ett_service.detection.models.form import CUT
from ett_service.detection.models.levels import mode_residuals
from ett_service.detection.models.residuals import residuals
from ett_service.detection.sample import Durations
from tests.detection.samples import rows

N = 4000


def _rows(seed: int, seconds: float = 100.0) -> Durations:
    draws = np.random.default_rng(seed)
    day = np.sort(draws.integers(0, 42, N)).astype(np.int32)
    return rows(seconds * np.exp(draws.normal(0, 0.3, N)), day, (day * 0).astype(np.int32))


def test_strata_are_compared_with_themselves() -> None:
    rows = _rows(2)
    stratum = (np.arange(N) % 2).astype(np.int32)
    twice = replace(rows, us=rows.us * (1 + 3 * stratum), stratum=stratum)
    plain, split = (residuals(each, 1, each.day < 28) for each in (rows, twice))
    assert np.abs(split.cut - plain.cut).max() < 0.05


def test_tails_say_no_more_than_where_they_are_cut() -> None:
    rows = _rows(3)
    tail = np.arange(N) % 33 == 0
    wild = replace(rows, us=np.where(tail, rows.us * 1000, rows.us))
    residual = residuals(wild, 1, wild.day < 28)
    assert residual.cut.max() <= CUT * residual.spread[0] + 0.2
    assert abs(residual.cut.mean()) < 0.05
    assert residual.spread[0] == pytest.approx(0.3, rel=0.1)


def test_rows_of_one_job_weigh_together_what_they_show() -> None:
    draws = np.random.default_rng(4)
    job = np.repeat(np.arange(N // 10), 10).astype(np.int32)
    alike = np.exp(0.5 * draws.normal(0, 1, N // 10))[job]
    rows = replace(_rows(5), unit=job, day=(job % 42).astype(np.int32))
    same = replace(rows, us=(rows.us * alike).astype(np.int64))
    apart, together = (residuals(each, 1, each.day < 28) for each in (rows, same))
    assert apart.weight.mean() > 0.8
    assert together.weight.mean() < 0.2


def test_a_cohort_without_baseline_is_compared_with_nothing() -> None:
    rows = replace(_rows(6), cohort=(np.arange(N) % 2).astype(np.int32))
    early = (rows.day < 28) & (rows.cohort == 0)
    assert np.isnan(residuals(rows, 2, early).spread[1])


def test_what_takes_no_time_at_all_is_only_very_short() -> None:
    rows = _rows(7)
    some = replace(rows, us=np.where(np.arange(N) % 50 == 0, 0, rows.us))
    assert np.isfinite(residuals(some, 1, some.day < 28).log).all()


def test_rows_of_the_slower_mode_count_as_far_as_the_modes_are_apart() -> None:
    rows = _rows(9)
    assert mode_residuals(rows, 1, rows.day < 28, residuals(rows, 1, rows.day < 28)) is None
    missed = np.random.default_rng(9).random(N) < np.where(rows.day < 28, 0.3, 0.7)
    modes = replace(rows, us=np.where(missed, rows.us * 8, rows.us))
    early = rows.day < 28
    residual = residuals(modes, 1, early)
    of_modes = mode_residuals(modes, 1, early, residual)
    assert of_modes is not None
    assert of_modes.cut[early].mean() == pytest.approx(0, abs=0.05)
    assert of_modes.cut[~early].mean() == pytest.approx(0.4 * np.log(8), rel=0.1)
    assert abs(residual.cut[~early].mean()) < 0.3 * of_modes.cut[~early].mean()


def test_values_of_later_days_score_as_those_of_the_baseline_whatever_their_law() -> None:
    """Of a law that is not symmetric they would seem worse: each cohort has few values."""
    cohorts, values = 400, 20
    draws = np.random.default_rng(8)
    number = cohorts * 2 * values
    cohort = np.repeat(np.arange(cohorts), 2 * values).astype(np.int32)
    day = np.tile(np.arange(2 * values), cohorts).astype(np.int32)
    lost = rows(3600 * draws.random(number) + 1.0, day, cohort)
    early = lost.day < values
    scored = residuals(lost, cohorts, early)
    standard = scored.cut / scored.cut_spread[cohort]
    later = standard[~early].mean() - standard[early].mean()
    assert scored.curvature > 0.1
    assert abs(later) < 2 * np.sqrt(2 / (number / 2))
