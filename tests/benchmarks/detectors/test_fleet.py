"""Made-up fleets are as they are documented, and hold what was planted and nothing else."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.detectors import makeup
from benchmarks.detectors.fleet import SimulatedFleet, simulate
from benchmarks.detectors.planting import CAUSES
from benchmarks.detectors.scenario import CHANGED_ON, DAYS, Kind, Scenario
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Series
from ett_service.detection.sample import Durations, Sample

MANY = 300
SEED = 5


@pytest.fixture(scope="module")
def plain() -> SimulatedFleet:
    return simulate(SEED, Scenario(attempts_per_day=MANY))


def _with(kind: Kind, factor: float = 1.0, cause: str = "", days: int = 1) -> SimulatedFleet:
    return simulate(SEED, Scenario(kind, MANY, factor, days, cause))


def _columns(sample: Sample) -> list[np.ndarray]:
    durations = [
        getattr(one, each.name) for one in sample.durations.values() for each in fields(one)
    ]
    rates = [getattr(one, each.name) for one in sample.rates.values() for each in fields(one)]
    assert sample.shares is not None
    return [*durations, *rates, *sample.shares.by_category.values()]


def test_one_seed_gives_one_fleet_and_another_seed_another(plain: SimulatedFleet) -> None:
    again = simulate(SEED, Scenario(attempts_per_day=MANY)).sample(DAYS - 1)
    for one, other in zip(_columns(plain.sample(DAYS - 1)), _columns(again), strict=True):
        np.testing.assert_array_equal(one, other)
    elsewhere = simulate(SEED + 1, Scenario(attempts_per_day=MANY))
    assert len(elsewhere.attempts.job) != len(plain.attempts.job)


def test_a_day_adds_what_became_known_on_it_and_moves_nothing(plain: SimulatedFleet) -> None:
    for before, after in pairwise(map(plain.sample, (0, 30, CHANGED_ON, DAYS - 1))):
        assert after.first_day_us == before.first_day_us == plain.first_us
        assert after.as_of_us - before.as_of_us == (after.days - before.days) * DAY_US
        for subject, known in before.durations.items():
            rows = after.durations[subject]
            np.testing.assert_array_equal(rows.us[: len(known.us)], known.us)
            assert known.day.max() < before.days
            assert (rows.day[len(known.us) :] >= before.days).all()


def test_attempts_are_as_many_as_asked_for_and_spread_over_cohorts_as_documented() -> None:
    fleets = [simulate(seed, Scenario(attempts_per_day=60)) for seed in range(10)]
    starts = [fleet.attempts for fleet in fleets]
    within = [one.cohort[(one.start >= 0) & (one.start < DAYS)] for one in starts]
    assert np.mean([len(cohorts) / DAYS for cohorts in within]) == pytest.approx(60, rel=0.05)
    shares = np.bincount(np.concatenate(within)) / sum(map(len, within))
    assert shares == pytest.approx(makeup.WEIGHTS, rel=0.1)
    assert min(makeup.WEIGHTS) == pytest.approx(0.07)


def test_phases_spread_as_documented_within_a_day_a_cohort_and_a_stratum() -> None:
    fleet = simulate(SEED, Scenario(attempts_per_day=2_000))
    for made in makeup.PHASES[: makeup.COMPILE]:
        expected = np.hypot(made.spread, makeup.OF_JOB)
        assert np.median(_within(fleet, made.subject)) == pytest.approx(expected, rel=0.1)


def _within(fleet: SimulatedFleet, subject: object) -> list[float]:
    known = {str(key): one.durations for key, one in fleet.known.items()}[str(subject)]
    group = known.stratum + 1000 * (known.cohort + 10 * known.day.astype(np.int64))
    lengths = np.log(known.us)
    sizes = np.bincount(group)
    large = np.flatnonzero(sizes >= 40)
    return [_spread(lengths[group == one]) for one in large[:24]]


def _spread(logs: np.ndarray) -> float:
    """Return the spread of what is no tail, by its quartiles."""
    low, high = np.quantile(logs, (0.25, 0.75))
    return float((high - low) / 1.349)


def test_three_in_a_hundred_lengths_are_tails(plain: SimulatedFleet) -> None:
    launcher = plain.known[makeup.PHASES[makeup.LAUNCHER].subject].durations
    usual = np.zeros(len(launcher.us))
    for cohort in range(len(makeup.COHORTS)):
        for stratum in np.unique(launcher.stratum):
            rows = (launcher.cohort == cohort) & (launcher.stratum == stratum)
            usual[rows] = np.median(launcher.us[rows]) if rows.any() else 0
    assert np.mean(launcher.us > 2.6 * usual) == pytest.approx(makeup.TAIL, abs=0.008)


def test_scheduling_takes_longer_on_working_days_and_at_the_end_of_a_month() -> None:
    slow, quick = [], []
    for seed in range(4):
        fleet = simulate(seed, Scenario(attempts_per_day=MANY))
        known = fleet.known[makeup.PHASES[makeup.SCHEDULING].subject].durations
        weekday = (fleet.first_us // DAY_US + 3 + known.day) % 7
        quick.append(np.median(known.us[weekday == 6]))
        slow.append(np.median(known.us[weekday == 4]))
    assert np.median(np.divide(slow, quick)) == pytest.approx(1.2 / 0.7, rel=0.1)


def test_days_are_shared_by_the_cohorts_of_a_cluster() -> None:
    logs = []
    for seed in range(2):
        fleet = simulate(seed, Scenario(attempts_per_day=1_000))
        known = fleet.known[makeup.PHASES[makeup.LAUNCHER].subject].durations
        logs.append(_day_medians(known))
    apart = np.concatenate(logs, axis=1)
    together = np.corrcoef(apart[0], apart[3])[0, 1]
    elsewhere = np.corrcoef(apart[0], apart[2])[0, 1]
    assert together > 0.35
    assert abs(elsewhere) < 0.2


def _day_medians(known: Durations) -> np.ndarray:
    found = [
        [
            np.median(np.log(known.us[(known.cohort == cohort) & (known.day == day)]))
            for day in range(DAYS)
        ]
        for cohort in range(len(makeup.COHORTS))
    ]
    logs = np.asarray(found)
    return np.subtract(logs, np.median(logs, axis=1, keepdims=True))


def test_jobs_have_several_attempts_and_failures_over_what_was_held(plain: SimulatedFleet) -> None:
    sample = plain.sample(DAYS - 1)
    again = sample.durations[makeup.TIME_TO_RECOVER]
    first = sample.durations[makeup.TIME_TO_START]
    assert len(again.us) / len(first.us) == pytest.approx(0.3, abs=0.04)
    failures, (infra, user) = (
        sample.rates[makeup.FAILURES],
        [sample.rates[cause] for cause in makeup.FAILURES_BY_CAUSE],
    )
    np.testing.assert_array_equal(failures.events, infra.events + user.events)
    assert failures.events.sum() / len(first.us) == pytest.approx(makeup.FAILED, rel=0.06)
    assert sample.shares is not None
    held = sum(part.sum() for part in sample.shares.by_category.values())
    assert held == pytest.approx(failures.exposure.sum() * 3.6e9)
    ratio = sample.shares.by_category["effective_training"].sum() / held
    assert 0.82 < ratio < 0.92


@pytest.mark.parametrize(("kind", "factor"), [(Kind.CELL, 1.6), (Kind.IMPROVEMENT, 1 / 1.6)])
def test_one_cell_is_changed_from_its_day_on_and_no_other_is(
    plain: SimulatedFleet, kind: Kind, factor: float
) -> None:
    changed = _with(kind, factor)
    (cohort,), (subject,) = changed.truth.cohorts, changed.truth.phases
    place = makeup.COHORTS.index(cohort)
    phase = [made.subject for made in makeup.PHASES].index(subject)
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
    cohort = _with(Kind.COHORT, 1.6).truth
    assert (len(cohort.cohorts), len(cohort.phases)) == (1, len(makeup.PHASES))
    phase = _with(Kind.PHASE, 1.3).truth
    assert (len(phase.cohorts), len(phase.phases)) == (len(makeup.COHORTS), 1)
    assert phase.is_touched(Series(phase.phases[0], ()))
    assert phase.is_target(Series(phase.phases[0], ()))
    assert not cohort.is_target(Series(cohort.phases[0], ()))


def test_a_mix_shift_doubles_one_cohort_and_changes_nothing_else(plain: SimulatedFleet) -> None:
    shifted = _with(Kind.MIX)
    (cohort,) = shifted.truth.cohorts
    place = makeup.COHORTS.index(cohort)
    late = plain.attempts.start >= CHANGED_ON
    before = np.bincount(plain.attempts.cohort[late])
    late = shifted.attempts.start >= CHANGED_ON
    after = np.bincount(shifted.attempts.cohort[late])
    assert after[place] / before[place] == pytest.approx(2, rel=0.1)
    np.testing.assert_array_equal(np.delete(after, place), np.delete(before, place))
    assert not shifted.truth.is_touched(Series(makeup.TIME_TO_START, cohort))


@pytest.mark.parametrize("days", [1, 3])
def test_an_outage_slows_a_cluster_for_its_days_and_fails_more(days: int) -> None:
    outage = _with(Kind.OUTAGE, days=days)
    assert outage.truth.from_day is not None
    assert outage.truth.to_day == outage.truth.from_day + days
    assert len({dict(cohort)["cluster"] for cohort in outage.truth.cohorts}) == 1
    inside = np.isin(
        outage.attempts.cohort, [makeup.COHORTS.index(c) for c in outage.truth.cohorts]
    )
    inside &= (outage.attempts.start >= outage.truth.from_day) & (
        outage.attempts.start < outage.truth.to_day
    )
    assert np.mean(np.isin(outage.attempts.outcome[inside], (1, 2))) == pytest.approx(0.7, abs=0.1)
    np.testing.assert_allclose(outage.attempts.surplus[~inside], 0)
    lengths = outage.attempts.lengths[inside]
    np.testing.assert_allclose(outage.attempts.surplus[inside], lengths * 2 / 3)


def test_relabelling_moves_time_and_keeps_the_sum() -> None:
    moved = _with(Kind.RELABELLING)
    np.testing.assert_allclose(moved.attempts.surplus.sum(axis=1), 0, atol=1e-9)
    assert moved.attempts.surplus[:, makeup.LAUNCHER].min() < 0
    assert moved.truth.impact == pytest.approx(0, abs=1e-9)


def test_what_hangs_is_never_told_as_a_length(plain: SimulatedFleet) -> None:
    hung = _with(Kind.HANG)
    (cohort,) = hung.truth.cohorts
    place = makeup.COHORTS.index(cohort)

    def started(fleet: SimulatedFleet) -> int:
        known = fleet.known[makeup.TIME_TO_START].durations
        return int(((known.cohort == place) & (known.day >= CHANGED_ON)).sum())

    assert started(hung) / started(plain) == pytest.approx(1 - makeup.HANGING, abs=0.12)


def test_more_fail_where_that_is_planted() -> None:
    failing = _with(Kind.FAILURES, 3.0)
    (cohort,) = failing.truth.cohorts
    place = makeup.COHORTS.index(cohort)
    late = (failing.attempts.cohort == place) & (failing.attempts.start >= CHANGED_ON)
    failed = np.isin(failing.attempts.outcome[late], (1, 2)).mean()
    assert failed == pytest.approx(3 * 0.26 / 0.74 / (1 + 3 * 0.26 / 0.74), abs=0.06)
    assert makeup.FAILURES in failing.truth.phases


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_explains_four_fifths_and_more(cause: str) -> None:
    truth = _with(Kind.CELL, 1.6, cause).truth
    assert truth.explained >= 0.8
    assert truth.value == str(CAUSES[cause])


def test_without_a_cause_no_value_explains_half() -> None:
    fleet = _with(Kind.CELL, 1.6, "none")
    assert fleet.truth.value == ""
    surplus = fleet.attempts.surplus.sum(axis=1)
    for place, dimension in enumerate(makeup.DIMENSIONS):
        slow = np.bincount(fleet.attempts.values[:, place], surplus) / surplus.sum()
        usual = np.bincount(fleet.attempts.values[fleet.attempts.start >= CHANGED_ON, place])
        more = slow[: len(usual)] - usual / usual.sum()
        assert more.max() < 0.2, dimension


def test_scenarios_are_told_apart_by_their_names() -> None:
    names = [
        Scenario(Kind.CELL, 60, 1.6).name,
        Scenario(Kind.OUTAGE, 12, days=3).name,
        Scenario(Kind.CELL, 60, 1.6, cause="image").name,
    ]
    assert names == ["cell-1.6@60", "outage-3d@12", "cell-1.6-image@60"]
