"""Fleets have the laws, the memory and the cohorts of their shape."""

import numpy as np
import pytest

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import simulate
from benchmarks.detectors.fleets.parameters import CHANGED_ON, DAYS
from benchmarks.detectors.fleets.scenario import (
    RAMP_DAYS,
    SECOND_ON,
    Scenario,
    ScenarioKind,
)
from benchmarks.detectors.fleets.shape import MISS_SHARE, SHAPES, WORSE_MISS_SHARE, Law, Shape

SEED, MANY = 5, 300


@pytest.mark.parametrize("law", list(Law))
def test_every_law_has_the_spread_and_a_median_of_one(law: Law) -> None:
    normal = np.random.default_rng(1).normal(size=(40_000, 1))
    logs = Shape("law", law).logs(normal, np.array([0.4]))
    assert np.median(logs) == pytest.approx(0, abs=0.01)
    assert logs.std() == pytest.approx(0.4, rel=0.15)


def test_days_with_memory_are_like_the_day_before_and_spread_more() -> None:
    days = SHAPES["ar1"].remembered(np.random.default_rng(2).normal(size=(500, 60, 1)))[:, :, 0]
    assert np.corrcoef(days[:, 1:].ravel(), days[:, :-1].ravel())[0, 1] == pytest.approx(
        0.6, abs=0.02
    )
    assert days.std() == pytest.approx(2.0, rel=0.03)


def test_cohorts_follow_zipf_and_some_come_and_go() -> None:
    fleet = simulate(SEED, Scenario(attempts_per_day=MANY, shape=SHAPES["churn"]))
    days = [fleet.attempts.start[fleet.attempts.cohort == cohort] for cohort in range(12)]
    assert len(days[0]) == pytest.approx(2 * len(days[1]), rel=0.1)
    assert days[8].max() < 41
    assert days[11].min() >= 44
    assert SHAPES["churn"].eligible(60) == list(range(8))
    assert SHAPES["zipf"].eligible(12) == [0, 1, 2]


def test_weekends_are_quiet() -> None:
    load = SHAPES["weekends"].load(np.arange(14) % 7)
    assert load[0].tolist() == [1.0] * 5 + [0.25] * 2 + [1.0] * 5 + [0.25] * 2


def test_the_hits_of_one_phase_fall_and_no_length_changes_otherwise() -> None:
    fleet = simulate(SEED, Scenario(ScenarioKind.HITS, MANY, shape=SHAPES["bimodal"]))
    plain = simulate(SEED, Scenario(attempts_per_day=MANY, shape=SHAPES["bimodal"]))
    (cohort,), (subject,) = fleet.truth.cohorts, fleet.truth.phases
    phase = [each.subject for each in parameters.PHASES].index(subject)
    mine = fleet.attempts.cohort == SHAPES["bimodal"].plan.cohorts.index(cohort)
    late = mine & (fleet.attempts.start >= CHANGED_ON)
    assert fleet.attempts.missed[late, phase].mean() == pytest.approx(WORSE_MISS_SHARE, abs=0.06)
    assert fleet.attempts.missed[~late, phase].mean() == pytest.approx(MISS_SHARE, abs=0.02)
    assert fleet.attempts.surplus[~late].sum() == 0
    assert len(plain.attempts.job) == pytest.approx(len(mine), rel=0.02)


def test_a_ramp_rises_for_ten_days() -> None:
    fleet = simulate(SEED, Scenario(ScenarioKind.RAMP, MANY, 1.02, shape=SHAPES["zipf"]))
    attempts, (subject,) = fleet.attempts, fleet.truth.phases
    phase = [each.subject for each in parameters.PHASES].index(subject)
    rise = attempts.lengths[:, phase] / (attempts.lengths - attempts.surplus)[:, phase]
    mine = rise > 1
    days = np.clip(np.floor(attempts.start[mine]) + 1 - CHANGED_ON, 0, RAMP_DAYS)
    assert rise[mine] == pytest.approx(1.02**days)
    assert attempts.start[mine].max() > DAYS - 1


def test_the_first_of_two_changes_is_beside_the_truth() -> None:
    truth = simulate(SEED, Scenario(ScenarioKind.SECOND, MANY, 1.6, shape=SHAPES["zipf"])).truth
    assert truth.from_day == SECOND_ON
    assert len(truth.earlier) == 1
    assert truth.earlier != truth.cohorts
