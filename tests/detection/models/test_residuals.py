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


def _cohorts(
    seed: int, spreads: np.typing.ArrayLike, values: int = 80, apart: float = 0.0
) -> Durations:
    """Return a value a day of each cohort, of ten strata that lie *apart* in each cohort."""
    draws, strata = np.random.default_rng(seed), 10
    spread = np.repeat(np.asarray(spreads, dtype=np.float64), values)
    cohort = np.repeat(np.arange(len(spread) // values), values).astype(np.int32)
    stratum = draws.integers(0, strata, len(spread)).astype(np.int32)
    places = draws.normal(0, apart, (len(spread) // values, strata))
    seconds = 100 * np.exp(draws.normal(0, spread) + places[cohort, stratum])
    day = np.tile(np.arange(values), len(spread) // values).astype(np.int32)
    return replace(rows(seconds, day, cohort), stratum=stratum)


def test_cohorts_that_spread_alike_have_one_spread() -> None:
    alike = _cohorts(10, np.full(20, 0.3))
    spread = residuals(alike, 20, alike.day < 60).spread
    assert spread.mean() == pytest.approx(0.3, rel=0.1)
    assert spread.std() / spread.mean() < 0.04


def test_cohorts_that_spread_more_have_a_spread_of_their_own() -> None:
    unlike = _cohorts(11, np.repeat([0.2, 0.6], 10))
    spread = residuals(unlike, 20, unlike.day < 60).spread
    assert spread[10:].mean() / spread[:10].mean() == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize(("apart", "least", "most"), [(0.0, 0.96, 1.0), (0.6, 0.6, 0.8)])
def test_strata_are_fitted_as_far_as_they_differ(apart: float, least: float, most: float) -> None:
    """Each value that is fitted makes the rest less sure."""
    of_strata = _cohorts(12, np.full(20, 0.3), apart=apart)
    early = of_strata.day < 60
    residual = residuals(of_strata, 20, early)
    assert least < residual.fitted.mean() < most
    later = (residual.cut / residual.cut_spread[of_strata.cohort])[~early]
    assert later.std() == pytest.approx(1, abs=0.12)


def test_places_of_modes_are_fitted_as_far_as_strata_differ() -> None:
    alike = _cohorts(13, np.full(8, 0.3), values=240)
    missed = np.random.default_rng(13).random(len(alike.us)) < 0.3
    modes = replace(alike, us=np.where(missed, alike.us * 8, alike.us))
    residual = residuals(modes, 8, modes.day < 180)
    assert residual.form.has_modes
    assert residual.fitted.mean() > 0.97


def test_what_began_in_the_last_days_of_the_baseline_is_no_second_mode() -> None:
    day = np.repeat(np.arange(56, dtype=np.int32), 6)
    slower = np.where(day >= 38, 500.0, 100.0)
    spread = np.exp(np.random.default_rng(14).normal(0, 0.2, len(day)))
    changed = rows(slower * spread, day, 0 * day)
    assert not residuals(changed, 1, day < 42).form.has_modes
