from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import poisson

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Finding, Metric, Series, Subject, Verdict, explains
from ett_service.detection.sample import Rates, Sample
from tests.detection.samples import (
    AS_OF_US,
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

FAILURES = Subject(Metric.FAILURES_PER_GPU_HOUR)
INFRA = Subject(Metric.FAILURES_PER_GPU_HOUR, cause="infra")
HOURS = 1000.0
A_DAY = 1.5

MISSES = Subject(Metric.CACHE_MISS_RATIO, "pt2_compile")
SINCE = 46
STARTS_A_DAY = 16
HIT_S = 100.0
SLOWDOWN = 4.0  #: of a start that misses
USUAL = 0.4


def _sample(events: np.typing.NDArray[np.int64], hours: float | Sequence[float] = HOURS) -> Sample:
    exposure = np.broadcast_to(np.array(hours), events.shape)
    cohort, day = (part.ravel().astype(np.int32) for part in np.indices(events.shape))
    gpus = np.full(events.size, 8.0)
    rates = Rates(events.ravel(), exposure.ravel().astype(np.float64), day, cohort, gpus)
    return Sample(AS_OF_US, DAYS, COHORTS, {}, {FAILURES: rates})


def _events(seed: int = 1) -> np.typing.NDArray[np.int64]:
    return np.random.default_rng(seed).poisson(A_DAY, (len(COHORTS), DAYS))


def _findings(sample: Sample) -> list[Finding]:
    return list(scan_of(sample).findings)


def test_more_failures_of_one_cohort_are_found() -> None:
    events = _events()
    events[2, 46:] += np.random.default_rng(2).poisson(2.5 * A_DAY, DAYS - 46)
    (finding,) = _findings(_sample(events))
    assert finding.series == Series(FAILURES, COHORTS[2])
    assert finding.verdict is Verdict.REGRESSION
    assert abs(day_of(finding) - 46) <= 2
    assert finding.low < finding.ratio < finding.high
    assert finding.ratio == pytest.approx(finding.after.median / finding.before.median, rel=0.05)
    assert finding.after.median == pytest.approx(3.5 * A_DAY / HOURS, rel=0.3)
    assert finding.after.p90 is None


def test_more_failures_everywhere_are_those_of_the_project() -> None:
    events = _events()
    events[:, 46:] += np.random.default_rng(2).poisson(1.5 * A_DAY, (4, DAYS - 46))
    assert [finding.series.cohort for finding in _findings(_sample(events))] == [()]


def test_larger_attempts_are_no_better_because_their_gpu_hours_fail_less() -> None:
    """From day 46 on a cohort runs small attempts where it ran large ones, which fail as often."""
    chances = np.random.default_rng(1)
    shares = np.full((2, len(COHORTS), DAYS), 0.5)
    shares[:, 2, :46], shares[:, 2, 46:] = [[0.9], [0.1]], [[0.1], [0.9]]
    events = np.stack([chances.poisson(6 * share) for share in shares])
    hours = shares * np.array([HOURS, HOURS / 16])[:, None, None]
    size, cohort, day = (part.ravel().astype(np.int32) for part in np.indices(events.shape))
    gpus = np.array([128.0, 8.0])[size]
    rates = Rates(events.ravel(), hours.ravel(), day, cohort, gpus)
    mixed = Sample(AS_OF_US, DAYS, COHORTS, {}, {FAILURES: rates})
    assert _findings(mixed) == []
    alike = replace(rates, gpus=np.full(events.size, 8.0))
    assert _findings(replace(mixed, rates={FAILURES: alike})) != []


def test_usual_failures_are_nothing_new() -> None:
    assert sum(len(_findings(_sample(_events(seed)))) for seed in range(10)) <= 2


def test_more_failures_in_more_hours_are_none() -> None:
    hours = np.where(np.arange(DAYS) >= 44, 3.0, 1.0)
    events = np.random.default_rng(4).poisson(A_DAY * hours, (4, DAYS))
    assert _findings(_sample(events, (HOURS * hours).tolist())) == []


def test_a_burst_on_one_day_is_an_incident() -> None:
    events = _events()
    events[1, 53] += 40
    assert {finding.verdict for finding in _findings(_sample(events))} == {Verdict.INCIDENT}


def test_four_failures_are_too_few_to_judge() -> None:
    events = np.zeros((4, DAYS), dtype=np.int64)
    events[:, ::9] = 1
    events[0, 45:] = 0
    events[0, [50, 52, 53, 55]] = 1
    assert _findings(_sample(events)) == []


def test_bursts_make_it_less_sure() -> None:
    draws = np.random.default_rng(6)
    bursts = 6 * draws.poisson(A_DAY / 6, (40, len(COHORTS), DAYS))
    assert sum(bool(_findings(_sample(events))) for events in bursts) <= 2
    assert poisson.sf(6 * 3, A_DAY) < 1e-9  # what a Poisson variance would make of a burst


def test_a_cause_and_all_failures_are_reported_once() -> None:
    events = _events()
    more = np.random.default_rng(2).poisson(2.5 * A_DAY, DAYS - 46)
    infra = _events(9)
    infra[2, 46:] += more
    both = infra + events
    of_infra, all_ = (_sample(part).rates[FAILURES] for part in (infra, both))
    sample = Sample(AS_OF_US, DAYS, COHORTS, {}, {FAILURES: all_, INFRA: of_infra})
    assert [finding.series for finding in _findings(sample)] == [Series(INFRA, COHORTS[2])]


def test_nothing_ever_failed() -> None:
    assert _findings(_sample(np.zeros((4, DAYS), dtype=np.int64))) == []


def _sample_of_starts(
    *, missed: float = USUAL, restarts: float = 0.5, factor: float = 1.0
) -> Sample:
    """Four cohorts, of which the first changes: its misses, its restarts, or its compiles.

    Restarts miss a tenth as often.
    """
    draws = np.random.default_rng(3)
    cohort, day, _ = (
        axis.ravel().astype(np.int32) for axis in np.indices((len(COHORTS), DAYS, STARTS_A_DAY))
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
    (finding,) = regressions(_sample_of_starts(missed=0.9))

    assert finding.series == Series(MISSES, COHORTS[0])
    assert day_of(finding) == pytest.approx(SINCE, abs=1)
    assert finding.before.median == pytest.approx(0.22, abs=0.05)
    assert finding.after.median == pytest.approx(0.495, abs=0.08)
    assert finding.ratio == pytest.approx(2.485 / 1.66, rel=0.1)
    assert finding.low < 2.485 / 1.66 < finding.high


def test_they_cost_what_compiles_take_longer() -> None:
    (finding,) = regressions(_sample_of_starts(missed=0.9))

    hours = STARTS_A_DAY * 7 * 8 * HIT_S * (2.485 - 1.66) * 1e6 / HOUR_US
    assert finding.impact.gpu_hours_per_week == pytest.approx(hours, rel=0.2)


def test_fewer_restarts_are_no_more_misses_of_each_kind() -> None:
    assert not scan_of(_sample_of_starts(restarts=0.0)).findings


def test_slower_compiles_are_found_within_one_state() -> None:
    (finding,) = regressions(_sample_of_starts(factor=1.3))

    assert finding.series == Series(COMPILE, COHORTS[0])
    assert finding.ratio == pytest.approx(1.3, abs=0.05)


def test_the_power_is_what_misses_can_cost() -> None:
    power = {
        (each.subject, each.cohort): each.smallest for each in scan_of(_sample_of_starts()).power
    }

    smallest = power[MISSES, COHORTS[0]]
    assert smallest is not None
    assert 1.15 < smallest < 1 + 3 * (1 - 0.22) / 1.66


def test_misses_explain_the_time_to_start_and_no_phase() -> None:
    cause, effect = Series(MISSES, COHORTS[0]), Series(START, COHORTS[0])

    assert explains((cause, 0), (effect, 0))
    assert not explains((cause, 0), (Series(COMPILE, COHORTS[0]), 0))
