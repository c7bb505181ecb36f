"""Misses of a cache: fewer hits are found as such, with the ratio of the means."""

from dataclasses import replace

import numpy as np
import pytest

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.causes import explains
from ett_service.core.regressions.finding import Metric, Series, Subject
from ett_service.detection.observed.sample import Sample
from tests.detection.samples import (
    COHORTS,
    COMPILE,
    DAYS,
    START,
    day_of,
    regressions,
    rows,
    sample,
    scan_of,
)

MISSES = Subject(Metric.CACHE_MISS_RATIO, "pt2_compile")
SINCE = 46
A_DAY = 16
HIT_S = 100.0
SLOWDOWN = 4.0  #: of a start that misses
USUAL = 0.4


def _sample(*, missed: float = USUAL, restarts: float = 0.5, factor: float = 1.0) -> Sample:
    """Four cohorts, of which the first changes: its misses, its restarts, or its compiles.

    Restarts miss a tenth as often.
    """
    draws = np.random.default_rng(3)
    cohort, day, _ = (
        axis.ravel().astype(np.int32) for axis in np.indices((len(COHORTS), DAYS, A_DAY))
    )
    changed = (cohort == 0) & (day >= SINCE)
    again = draws.random(len(day)) < np.where(changed, restarts, 0.5)
    chance = np.where(changed, missed, USUAL) * np.where(again, 0.1, 1.0)
    misses = draws.random(len(day)) < chance
    seconds = np.exp(draws.normal(np.log(HIT_S), 0.1, len(day)))
    seconds[misses] *= SLOWDOWN
    seconds[changed] *= factor
    compiles = rows(seconds, day, cohort)
    start = again.astype(np.int32)
    return sample(
        {
            COMPILE: replace(compiles, stratum=2 * start + misses.astype(np.int32)),
            MISSES: replace(compiles, us=misses.astype(np.int64), stratum=start),
        }
    )


def test_more_misses_are_found_as_what_they_are() -> None:
    """Mean times are 1 + 3 x 0.22 before and 1 + 3 x 0.495 after, in hits."""
    (finding,) = regressions(_sample(missed=0.9))

    assert finding.series == Series(MISSES, COHORTS[0])
    assert day_of(finding) == pytest.approx(SINCE, abs=1)
    assert finding.before.median == pytest.approx(0.22, abs=0.05)
    assert finding.after.median == pytest.approx(0.495, abs=0.08)
    assert finding.ratio == pytest.approx(2.485 / 1.66, rel=0.1)
    assert finding.low < 2.485 / 1.66 < finding.high


def test_they_cost_what_compiles_take_longer() -> None:
    (finding,) = regressions(_sample(missed=0.9))

    hours = A_DAY * 7 * 8 * HIT_S * (2.485 - 1.66) * 1e6 / HOUR_US
    assert finding.impact.gpu_hours_per_week == pytest.approx(hours, rel=0.2)


def test_fewer_restarts_are_no_more_misses_of_each_kind() -> None:
    assert not scan_of(_sample(restarts=0.0)).findings


def test_slower_compiles_are_found_within_one_state() -> None:
    (finding,) = regressions(_sample(factor=1.3))

    assert finding.series == Series(COMPILE, COHORTS[0])
    assert finding.ratio == pytest.approx(1.3, abs=0.05)


def test_the_power_is_what_misses_can_cost() -> None:
    power = {(each.subject, each.cohort): each.smallest for each in scan_of(_sample()).power}

    smallest = power[MISSES, COHORTS[0]]
    assert smallest is not None
    assert 1.15 < smallest < 1 + 3 * (1 - 0.22) / 1.66


def test_misses_explain_the_time_to_start_and_no_phase() -> None:
    cause, effect = Series(MISSES, COHORTS[0]), Series(START, COHORTS[0])

    assert explains((cause, 0), (effect, 0))
    assert not explains((cause, 0), (Series(COMPILE, COHORTS[0]), 0))
