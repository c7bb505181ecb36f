from dataclasses import replace

import numpy as np
import pytest

from ett_service.detection.models.durations import CUT, medians, residuals, uncut
from ett_service.detection.sample import Durations
from tests.detection.made import rows

N = 4000


def _rows(seed: int, seconds: float = 100.0) -> Durations:
    draws = np.random.default_rng(seed)
    day = np.sort(draws.integers(0, 42, N)).astype(np.int32)
    return rows(seconds * np.exp(draws.normal(0, 0.3, N)), day, (day * 0).astype(np.int32))


def test_medians_are_those_of_each_group() -> None:
    draws = np.random.default_rng(1)
    values, group = draws.normal(0, 5, 300), draws.integers(0, 7, 300)
    found = medians(values, group, 8)
    assert found[:7] == pytest.approx([np.median(values[group == one]) for one in range(7)])
    assert np.isnan(found[7])


def test_strata_are_compared_with_themselves() -> None:
    told = _rows(2)
    stratum = (np.arange(N) % 2).astype(np.int32)
    twice = replace(told, us=told.us * (1 + 3 * stratum), stratum=stratum)
    plain, split = (residuals(one, 1, one.day < 28) for one in (told, twice))
    assert np.abs(split.cut - plain.cut).max() < 0.05


def test_tails_say_no_more_than_where_they_are_cut() -> None:
    told = _rows(3)
    tail = np.arange(N) % 33 == 0
    wild = replace(told, us=np.where(tail, told.us * 1000, told.us))
    found = residuals(wild, 1, wild.day < 28)
    assert found.cut.max() <= CUT * found.spread[0] + 0.2
    assert abs(found.cut.mean()) < 0.05
    assert found.spread[0] == pytest.approx(0.3, rel=0.1)


def test_rows_of_one_job_weigh_together_what_they_tell() -> None:
    draws = np.random.default_rng(4)
    job = np.repeat(np.arange(N // 10), 10).astype(np.int32)
    alike = np.exp(0.5 * draws.normal(0, 1, N // 10))[job]
    told = replace(_rows(5), unit=job, day=(job % 42).astype(np.int32))
    same = replace(told, us=(told.us * alike).astype(np.int64))
    apart, together = (residuals(one, 1, one.day < 28) for one in (told, same))
    assert apart.weight.mean() > 0.8
    assert together.weight.mean() < 0.2


def test_a_cohort_without_baseline_is_compared_with_nothing() -> None:
    told = replace(_rows(6), cohort=(np.arange(N) % 2).astype(np.int32))
    early = (told.day < 28) & (told.cohort == 0)
    assert np.isnan(residuals(told, 2, early).spread[1])


def test_what_takes_no_time_at_all_is_only_very_short() -> None:
    told = _rows(7)
    some = replace(told, us=np.where(np.arange(N) % 50 == 0, 0, told.us))
    assert np.isfinite(residuals(some, 1, some.day < 28).log).all()


def test_the_mean_of_cut_values_tells_the_shift_under_it() -> None:
    draws = np.random.default_rng(8).normal(0, 1, 200_000)
    for shift in (0.3, 1.0, 2.0):
        level = np.clip(draws + shift, -CUT, CUT).mean() - np.clip(draws, -CUT, CUT).mean()
        assert uncut(np.array([level]))[0] == pytest.approx(shift, abs=0.03)
    assert uncut(np.array([CUT]))[0] == np.inf
