"""Scores are what the hand finds, on what was told of fleets by hand."""

import pytest

from benchmarks.detectors import makeup
from benchmarks.detectors.alert import Alert, Trial
from benchmarks.detectors.scenario import CHANGED_ON, Kind, Scenario, Truth
from benchmarks.detectors.scoring import Part, count_bounds, mark, score
from ett_service.core.regressions.finding import Series, Verdict

HERE, THERE = makeup.COHORTS[:2]
LAUNCH = makeup.PHASES[makeup.LAUNCHER].subject
COMPILE = makeup.PHASES[makeup.COMPILE].subject
CELL = Truth(
    Scenario(Kind.CELL, 60, 1.6),
    1,
    CHANGED_ON,
    None,
    (HERE,),
    (LAUNCH,),
    (makeup.TIME_TO_START, makeup.ETT),
)
NULL = Truth(Scenario(), 1, None, None)
RIGHT = Series(LAUNCH, HERE)


def test_what_is_planted_is_right_within_14_days() -> None:
    marks = mark(CELL, [Alert(48, RIGHT, onset=46)])
    assert (marks.false, marks.noticed, marks.right_cohort, marks.right_cell) == (0, *[True] * 3)
    assert (marks.right_first, marks.delay, marks.onset_error) == (True, 4, 1)
    assert mark(CELL, [Alert(58, RIGHT)]).delay == 14
    late = mark(CELL, [Alert(59, RIGHT)])
    assert (late.false, late.right_cohort, late.delay) == (0, False, None)


def test_what_has_not_changed_is_false_and_so_is_what_has_not_yet() -> None:
    assert (
        mark(CELL, [Alert(50, Series(COMPILE, HERE)), Alert(50, Series(LAUNCH, THERE))]).false == 2
    )
    assert mark(CELL, [Alert(44, RIGHT), Alert(42, Series(LAUNCH, THERE))]).false == 1
    assert mark(NULL, [Alert(50, RIGHT)]).false == 1
    assert mark(NULL, [Alert(50, RIGHT, Verdict.IMPROVEMENT)]).false == 0


def test_what_follows_is_of_the_right_cohort_but_not_the_cell() -> None:
    marks = mark(CELL, [Alert(47, Series(makeup.TIME_TO_START, HERE)), Alert(49, RIGHT)])
    assert (marks.false, marks.right_cohort, marks.right_cell, marks.delay) == (0, True, True, 3)
    assert marks.right_first is False


def test_the_fleet_is_noticed_and_names_no_cohort() -> None:
    marks = mark(CELL, [Alert(50, Series(makeup.TIME_TO_START, ()))])
    assert (marks.false, marks.noticed, marks.right_cohort) == (0, True, False)


def test_what_comes_first_on_the_first_day_decides() -> None:
    told = [Alert(50, RIGHT), Alert(50, Series(makeup.TIME_TO_START, HERE))]
    assert mark(CELL, told).right_first is True
    assert mark(CELL, told[::-1]).right_first is False
    assert mark(CELL, []).right_first is None


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (Kind.RELABELLING, Verdict.RELABELLING),
        (Kind.IMPROVEMENT, Verdict.IMPROVEMENT),
        (Kind.OUTAGE, Verdict.INCIDENT),
    ],
)
def test_what_is_no_regression_is_to_be_named_and_not_alerted(kind: Kind, verdict: Verdict) -> None:
    truth = Truth(Scenario(kind), 1, CHANGED_ON, None, (HERE,), (LAUNCH, COMPILE))
    named = mark(truth, [Alert(50, RIGHT, verdict)])
    assert (named.false, named.right_cell) == (0, True)
    alerted = mark(truth, [Alert(50, RIGHT)])
    assert (alerted.false, alerted.right_cell) == (1, False)


def test_a_shift_of_the_mix_is_named_of_the_project() -> None:
    truth = Truth(Scenario(Kind.MIX), 1, CHANGED_ON, None, (HERE,))
    named = mark(truth, [Alert(50, Series(makeup.ETT, ()), Verdict.MIX)])
    assert (named.false, named.noticed) == (0, True)
    assert mark(truth, [Alert(50, Series(makeup.ETT, ()))]).false == 1


def test_scores_are_sums_of_marks() -> None:
    found = mark(CELL, [Alert(48, RIGHT, onset=46)])
    late = mark(CELL, [Alert(52, RIGHT, onset=49), Alert(60, Series(LAUNCH, THERE))])
    missed = mark(CELL, [])
    total = score([found, late, missed])
    assert (total.fleets, total.false) == (3, 1)
    assert total.false_per_month == pytest.approx(30 / 27 / 3)
    assert (total.right_cohort, total.onset) == (Part(2, 3), Part(1, 2))
    assert (total.median_delay, total.right_first) == (6, Part(2, 2))
    assert total.precision == pytest.approx(2 / 3)
    assert total.f1 == pytest.approx(2 / 3)


def test_wilson_s_interval_is_as_published() -> None:
    assert Part(81, 263).bounds == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998
    assert Part(1, 29).bounds == pytest.approx((0.0061, 0.1718), abs=1e-4)
    assert Part(0, 20).bounds == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert (Part(0, 0).bounds, Part(0, 0).share) == ((0.0, 1.0), None)


def test_an_interval_of_a_count_is_that_of_a_small_part_of_many() -> None:
    low, high = Part(7, 1_000_000).bounds
    assert count_bounds(7) == pytest.approx((low * 1e6, high * 1e6), rel=1e-3)


def test_a_trial_is_read_as_it_was_written() -> None:
    told = Trial("cell-1.6@60", 3, {"ours": (Alert(48, RIGHT, onset=46),)}, {"ours": 1.5})
    assert Trial.read(told.members()) == told
