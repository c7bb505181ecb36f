"""Simulated fleets are as they are documented, with the planted change and no other."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.fleet import SimulatedFleet, simulate
from benchmarks.detectors.fleets.parameters import CHANGED_ON, DAYS
from benchmarks.detectors.fleets.scenario import CAUSES, Scenario, ScenarioKind
from benchmarks.detectors.fleets.shape import SHAPES
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Series
from ett_service.detection.sample import Durations, Sample

MANY = 300
SEED = 5


@pytest.fixture(scope="module")
def plain() -> SimulatedFleet:
    return simulate(SEED, Scenario(attempts_per_day=MANY))


def _with(
    kind: ScenarioKind, factor: float = 1.0, cause: str = "", days: int = 1
) -> SimulatedFleet:
    return simulate(SEED, Scenario(kind, MANY, factor, days, cause))


def _columns(sample: Sample) -> list[np.ndarray]:
    durations = [
        getattr(columns, column.name)
        for columns in sample.durations.values()
        for column in fields(columns)
    ]
    rates = [
        getattr(columns, column.name)
        for columns in sample.rates.values()
        for column in fields(columns)
    ]
    assert sample.shares is not None
    return [*durations, *rates, *sample.shares.by_category.values()]


def test_one_seed_gives_one_fleet_and_another_seed_another(plain: SimulatedFleet) -> None:
    again = simulate(SEED, Scenario(attempts_per_day=MANY)).sample(DAYS - 1)
    for first, second in zip(_columns(plain.sample(DAYS - 1)), _columns(again), strict=True):
        np.testing.assert_array_equal(first, second)
    elsewhere = simulate(SEED + 1, Scenario(attempts_per_day=MANY))
    assert len(elsewhere.attempts.job) != len(plain.attempts.job)


def test_a_day_adds_what_became_known_on_it_and_moves_nothing(plain: SimulatedFleet) -> None:
    for before, after in pairwise(map(plain.sample, (0, 30, CHANGED_ON, DAYS - 1))):
        assert after.first_day_us == before.first_day_us == plain.first_us
        assert after.as_of_us - before.as_of_us == (after.days - before.days) * DAY_US
        for subject, earlier in before.durations.items():
            rows = after.durations[subject]
            np.testing.assert_array_equal(rows.us[: len(earlier.us)], earlier.us)
            assert earlier.day.max() < before.days
            assert (rows.day[len(earlier.us) :] >= before.days).all()


def test_attempts_are_as_many_as_asked_for_and_spread_over_cohorts_as_documented() -> None:
    fleets = [simulate(seed, Scenario(attempts_per_day=60)) for seed in range(10)]
    attempts = [fleet.attempts for fleet in fleets]
    within = [each.cohort[(each.start >= 0) & (each.start < DAYS)] for each in attempts]
    assert np.mean([len(cohorts) / DAYS for cohorts in within]) == pytest.approx(60, rel=0.05)
    shares = np.bincount(np.concatenate(within)) / sum(map(len, within))
    assert shares == pytest.approx(parameters.COHORT_SHARES, rel=0.1)
    assert min(parameters.COHORT_SHARES) == pytest.approx(0.07)


@pytest.mark.slow
def test_phases_spread_as_documented_within_a_day_a_cohort_and_a_stratum() -> None:
    fleet = simulate(SEED, Scenario(attempts_per_day=2_000))
    for phase in parameters.PHASES[: parameters.COMPILE]:
        expected = np.hypot(phase.spread, parameters.JOB_SPREAD)
        assert np.median(_within(fleet, phase.subject)) == pytest.approx(expected, rel=0.1)


def _within(fleet: SimulatedFleet, subject: object) -> list[float]:
    durations = {str(key): each.durations for key, each in fleet.durations.items()}[str(subject)]
    group = durations.stratum + 1000 * (durations.cohort + 10 * durations.day.astype(np.int64))
    lengths = np.log(durations.us)
    sizes = np.bincount(group)
    large = np.flatnonzero(sizes >= 40)
    return [_spread(lengths[group == number]) for number in large[:24]]


def _spread(logs: np.ndarray) -> float:
    """Return the spread of what is no tail, by its quartiles."""
    low, high = np.quantile(logs, (0.25, 0.75))
    return float((high - low) / 1.349)


def test_three_in_a_hundred_lengths_are_tails(plain: SimulatedFleet) -> None:
    launcher = plain.durations[parameters.PHASES[parameters.LAUNCHER].subject].durations
    usual = np.zeros(len(launcher.us))
    for cohort in range(len(parameters.COHORTS)):
        for stratum in np.unique(launcher.stratum):
            rows = (launcher.cohort == cohort) & (launcher.stratum == stratum)
            usual[rows] = np.median(launcher.us[rows]) if rows.any() else 0
    assert np.mean(launcher.us > 2.6 * usual) == pytest.approx(parameters.TAIL_SHARE, abs=0.008)


def test_scheduling_takes_longer_on_working_days_and_at_the_end_of_a_month() -> None:
    slow, quick = [], []
    for seed in range(4):
        fleet = simulate(seed, Scenario(attempts_per_day=MANY))
        durations = fleet.durations[parameters.PHASES[parameters.SCHEDULING].subject].durations
        weekday = (fleet.first_us // DAY_US + 3 + durations.day) % 7
        quick.append(np.median(durations.us[weekday == 6]))
        slow.append(np.median(durations.us[weekday == 4]))
    assert np.median(np.divide(slow, quick)) == pytest.approx(1.2 / 0.7, rel=0.1)


@pytest.mark.slow
def test_days_are_shared_by_the_cohorts_of_a_cluster() -> None:
    logs = []
    for seed in range(2):
        fleet = simulate(seed, Scenario(attempts_per_day=1_000))
        durations = fleet.durations[parameters.PHASES[parameters.LAUNCHER].subject].durations
        logs.append(_day_medians(durations))
    apart = np.concatenate(logs, axis=1)
    together = np.corrcoef(apart[0], apart[3])[0, 1]
    elsewhere = np.corrcoef(apart[0], apart[2])[0, 1]
    assert together > 0.35
    assert abs(elsewhere) < 0.2


def _day_medians(durations: Durations) -> np.ndarray:
    medians = [
        [
            np.median(np.log(durations.us[(durations.cohort == cohort) & (durations.day == day)]))
            for day in range(DAYS)
        ]
        for cohort in range(len(parameters.COHORTS))
    ]
    logs = np.asarray(medians)
    return np.subtract(logs, np.median(logs, axis=1, keepdims=True))


def test_jobs_have_several_attempts_and_failures_over_what_was_held(plain: SimulatedFleet) -> None:
    sample = plain.sample(DAYS - 1)
    again = sample.durations[parameters.TIME_TO_RECOVER]
    first = sample.durations[parameters.TIME_TO_START]
    assert len(again.us) / len(first.us) == pytest.approx(0.3, abs=0.04)
    failures, (infra, user) = (
        sample.rates[parameters.FAILURES],
        [sample.rates[cause] for cause in parameters.FAILURES_BY_CAUSE],
    )
    np.testing.assert_array_equal(failures.events, infra.events + user.events)
    assert failures.events.sum() / len(first.us) == pytest.approx(parameters.FAILED_SHARE, rel=0.06)
    assert sample.shares is not None
    held = sum(part.sum() for part in sample.shares.by_category.values())
    assert held == pytest.approx(failures.exposure.sum() * 3.6e9)
    ratio = sample.shares.by_category["effective_training"].sum() / held
    assert 0.82 < ratio < 0.92


@pytest.mark.parametrize(
    ("kind", "factor"), [(ScenarioKind.CELL, 1.6), (ScenarioKind.IMPROVEMENT, 1 / 1.6)]
)
def test_one_cell_is_changed_from_its_day_on_and_no_other_is(
    plain: SimulatedFleet, kind: ScenarioKind, factor: float
) -> None:
    changed = _with(kind, factor)
    (cohort,), (subject,) = changed.truth.cohorts, changed.truth.phases
    place = parameters.COHORTS.index(cohort)
    phase = [phase.subject for phase in parameters.PHASES].index(subject)
    expected = np.ones_like(plain.attempts.lengths)
    hit = (plain.attempts.cohort == place) & (plain.attempts.start >= CHANGED_ON)
    expected[hit, phase] = factor
    ran = len(plain.attempts.job) == len(changed.attempts.job)
    assert ran
    same = np.isclose(changed.attempts.lengths / plain.attempts.lengths, expected)
    assert same.mean() > 0.999  # a slower attempt may push a restart past midnight
    assert changed.truth.from_day == CHANGED_ON
    assert (changed.truth.impact > 0) is (factor > 1)


def test_every_phase_of_a_cohort_and_one_phase_of_the_fleet_are_changed() -> None:
    cohort = _with(ScenarioKind.COHORT, 1.6).truth
    assert (len(cohort.cohorts), len(cohort.phases)) == (1, len(parameters.PHASES))
    phase = _with(ScenarioKind.PHASE, 1.3).truth
    assert (len(phase.cohorts), len(phase.phases)) == (len(parameters.COHORTS), 1)
    assert phase.is_touched(Series(phase.phases[0], ()))
    assert phase.is_target(Series(phase.phases[0], ()))
    assert not cohort.is_target(Series(cohort.phases[0], ()))


def test_a_mix_shift_doubles_one_cohort_and_changes_nothing_else(plain: SimulatedFleet) -> None:
    shifted = _with(ScenarioKind.MIX)
    (cohort,) = shifted.truth.cohorts
    place = parameters.COHORTS.index(cohort)
    late = plain.attempts.start >= CHANGED_ON
    before = np.bincount(plain.attempts.cohort[late])
    late = shifted.attempts.start >= CHANGED_ON
    after = np.bincount(shifted.attempts.cohort[late])
    assert after[place] / before[place] == pytest.approx(2, rel=0.1)
    np.testing.assert_array_equal(np.delete(after, place), np.delete(before, place))
    assert not shifted.truth.is_touched(Series(parameters.TIME_TO_START, cohort))


@pytest.mark.parametrize("days", [1, 3])
def test_an_outage_slows_a_cluster_for_its_days_and_fails_more(days: int) -> None:
    outage = _with(ScenarioKind.OUTAGE, days=days)
    assert outage.truth.from_day is not None
    assert outage.truth.to_day == outage.truth.from_day + days
    assert len({dict(cohort)["cluster"] for cohort in outage.truth.cohorts}) == 1
    inside = np.isin(
        outage.attempts.cohort, [parameters.COHORTS.index(c) for c in outage.truth.cohorts]
    )
    inside &= (outage.attempts.start >= outage.truth.from_day) & (
        outage.attempts.start < outage.truth.to_day
    )
    assert np.mean(np.isin(outage.attempts.outcome[inside], (1, 2))) == pytest.approx(0.7, abs=0.1)
    np.testing.assert_allclose(outage.attempts.surplus[~inside], 0)
    lengths = outage.attempts.lengths[inside]
    np.testing.assert_allclose(outage.attempts.surplus[inside], lengths * 2 / 3)


def test_relabelling_moves_time_and_keeps_the_sum() -> None:
    moved = _with(ScenarioKind.RELABELLING)
    np.testing.assert_allclose(moved.attempts.surplus.sum(axis=1), 0, atol=1e-9)
    assert moved.attempts.surplus[:, parameters.LAUNCHER].min() < 0
    assert moved.truth.impact == pytest.approx(0, abs=1e-9)


@pytest.mark.timeout(20)
def test_an_attempt_of_a_million_days_holds_its_accelerators_to_the_last_day() -> None:
    fleet = simulate(7002, Scenario(attempts_per_day=12, shape=SHAPES["heavy"]))
    longest = int(fleet.attempts.ended_at.argmax())
    assert fleet.attempts.ended_at[longest] > 1e6
    shares = fleet.sample(DAYS - 1).shares
    assert shares is not None
    last = (shares.day == DAYS - 1) & (shares.cohort == fleet.attempts.cohort[longest])
    held_us = sum(float(held[last].sum()) for held in shares.by_category.values())
    assert held_us >= float(fleet.attempts.gpus[longest]) * DAY_US


def test_what_hangs_never_has_a_length(plain: SimulatedFleet) -> None:
    hung = _with(ScenarioKind.HANG)
    (cohort,) = hung.truth.cohorts
    place = parameters.COHORTS.index(cohort)

    def started(fleet: SimulatedFleet) -> int:
        durations = fleet.durations[parameters.TIME_TO_START].durations
        return int(((durations.cohort == place) & (durations.day >= CHANGED_ON)).sum())

    assert started(hung) / started(plain) == pytest.approx(1 - parameters.HANGING_SHARE, abs=0.12)


def test_more_fail_where_that_is_planted() -> None:
    failing = _with(ScenarioKind.FAILURES, 3.0)
    (cohort,) = failing.truth.cohorts
    place = parameters.COHORTS.index(cohort)
    late = (failing.attempts.cohort == place) & (failing.attempts.start >= CHANGED_ON)
    failed = np.isin(failing.attempts.outcome[late], (1, 2)).mean()
    assert failed == pytest.approx(3 * 0.26 / 0.74 / (1 + 3 * 0.26 / 0.74), abs=0.06)
    assert parameters.FAILURES in failing.truth.phases


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_explains_four_fifths_and_more(cause: str) -> None:
    truth = _with(ScenarioKind.CELL, 1.6, cause).truth
    assert truth.explained >= 0.8
    assert truth.value == str(CAUSES[cause])


def test_without_a_cause_no_value_explains_half() -> None:
    fleet = _with(ScenarioKind.CELL, 1.6, "none")
    assert fleet.truth.value == ""
    surplus = fleet.attempts.surplus.sum(axis=1)
    for place, dimension in enumerate(parameters.DIMENSIONS):
        slow = np.bincount(fleet.attempts.values[:, place], surplus) / surplus.sum()
        usual = np.bincount(fleet.attempts.values[fleet.attempts.start >= CHANGED_ON, place])
        more = slow[: len(usual)] - usual / usual.sum()
        assert more.max() < 0.2, dimension


def test_scenarios_have_different_names() -> None:
    names = [
        Scenario(ScenarioKind.CELL, 60, 1.6).name,
        Scenario(ScenarioKind.OUTAGE, 12, days=3).name,
        Scenario(ScenarioKind.CELL, 60, 1.6, cause="image").name,
    ]
    assert names == ["cell-1.6@60", "outage-3d@12", "cell-1.6-image@60"]


def test_steps_are_timed_where_asked_and_slower_ones_change_nothing_else(
    plain: SimulatedFleet,
) -> None:
    assert parameters.STEPS not in plain.durations
    timed = simulate(SEED, Scenario(attempts_per_day=MANY, times_steps=True))
    slower = _with(ScenarioKind.STEPS, 1.1)
    usual, slow = (fleet.sample(DAYS - 1).durations for fleet in (timed, slower))
    assert slow.keys() == usual.keys()
    steps, slow_steps = usual[parameters.STEPS], slow[parameters.STEPS]
    for subject, rows in usual.items():
        if subject != parameters.STEPS:
            np.testing.assert_array_equal(slow[subject].us, rows.us)

    changed = parameters.COHORTS.index(slower.truth.cohorts[0])
    for cohort in range(len(parameters.COHORTS)):
        medians = [
            np.median(rows.us[(rows.cohort == cohort) & (rows.day > CHANGED_ON)])
            for rows in (steps, slow_steps)
        ]
        factor = 1.1 if cohort == changed else 1.0
        assert medians[1] / medians[0] == pytest.approx(
            factor, rel=0.02 if cohort == changed else 0
        )
    assert slower.truth.derived == ()
    assert 0.0 < slower.truth.impact < 0.1


def test_a_job_of_many_days_times_its_steps_each_day() -> None:
    fleet = simulate(SEED, Scenario(attempts_per_day=MANY, times_steps=True))
    steps = fleet.sample(DAYS - 1).durations[parameters.STEPS]
    of_an_attempt = np.unique(np.stack([steps.unit, steps.us]), axis=1, return_counts=True)[1]
    assert 2 <= of_an_attempt.max() <= 5
    assert (steps.spent_us <= 86_400e6).all()
    assert (steps.spent_us >= steps.us * (parameters.FEWEST_STEPS - 1)).all()
