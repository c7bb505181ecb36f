"""Scores are as worked out by hand, on alerts that were written by hand."""

import pytest

from benchmarks.detectors.fleets import parameters
from benchmarks.detectors.fleets.parameters import CHANGED_ON
from benchmarks.detectors.fleets.scenario import Scenario, ScenarioKind, Truth
from benchmarks.detectors.scoring import Proportion, count_bounds, mark, score
from benchmarks.detectors.trials import DetectorAlert, Trial
from ett_service.core.regressions.finding import Series, Verdict

HERE, THERE = parameters.COHORTS[:2]
LAUNCH = parameters.PHASES[parameters.LAUNCHER].subject
COMPILE = parameters.PHASES[parameters.COMPILE].subject
CELL = Truth(
    Scenario(ScenarioKind.CELL, 60, 1.6),
    1,
    CHANGED_ON,
    None,
    (HERE,),
    (LAUNCH,),
    (parameters.TIME_TO_START, parameters.ETT),
)
NULL = Truth(Scenario(), 1, None, None)
RIGHT = Series(LAUNCH, HERE)


def test_what_is_planted_is_right_within_14_days() -> None:
    marks = mark(CELL, [DetectorAlert(48, RIGHT, onset=46)])
    assert (marks.false, marks.noticed, marks.right_cohort, marks.right_cell) == (0, *[True] * 3)
    assert (marks.right_first, marks.delay, marks.onset_error) == (True, 4, 1)
    assert mark(CELL, [DetectorAlert(58, RIGHT)]).delay == 14
    late = mark(CELL, [DetectorAlert(59, RIGHT)])
    assert (late.false, late.right_cohort, late.delay) == (0, False, None)


def test_what_has_not_changed_is_false_and_so_is_what_has_not_yet() -> None:
    assert (
        mark(
            CELL,
            [DetectorAlert(50, Series(COMPILE, HERE)), DetectorAlert(50, Series(LAUNCH, THERE))],
        ).false
        == 2
    )
    assert (
        mark(CELL, [DetectorAlert(44, RIGHT), DetectorAlert(42, Series(LAUNCH, THERE))]).false == 1
    )
    assert mark(NULL, [DetectorAlert(50, RIGHT)]).false == 1
    assert mark(NULL, [DetectorAlert(50, RIGHT, Verdict.IMPROVEMENT)]).false == 0


def test_what_contains_the_change_is_of_the_right_cohort_but_not_the_cell() -> None:
    marks = mark(
        CELL, [DetectorAlert(47, Series(parameters.TIME_TO_START, HERE)), DetectorAlert(49, RIGHT)]
    )
    assert (marks.false, marks.right_cohort, marks.right_cell, marks.delay) == (0, True, True, 3)
    assert marks.right_first is False


def test_the_fleet_is_noticed_and_names_no_cohort() -> None:
    marks = mark(CELL, [DetectorAlert(50, Series(parameters.TIME_TO_START, ()))])
    assert (marks.false, marks.noticed, marks.right_cohort) == (0, True, False)


def test_what_comes_first_on_the_first_day_decides() -> None:
    alerts = [DetectorAlert(50, RIGHT), DetectorAlert(50, Series(parameters.TIME_TO_START, HERE))]
    assert mark(CELL, alerts).right_first is True
    assert mark(CELL, alerts[::-1]).right_first is False
    assert mark(CELL, []).right_first is None


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (ScenarioKind.RELABELLING, Verdict.RELABELLING),
        (ScenarioKind.IMPROVEMENT, Verdict.IMPROVEMENT),
        (ScenarioKind.OUTAGE, Verdict.INCIDENT),
    ],
)
def test_what_is_no_regression_is_to_be_named_and_not_alerted(
    kind: ScenarioKind, verdict: Verdict
) -> None:
    truth = Truth(Scenario(kind), 1, CHANGED_ON, None, (HERE,), (LAUNCH, COMPILE))
    named = mark(truth, [DetectorAlert(50, RIGHT, verdict)])
    assert (named.false, named.right_cell) == (0, True)
    alerted = mark(truth, [DetectorAlert(50, RIGHT)])
    assert (alerted.false, alerted.right_cell) == (1, False)


def test_a_shift_of_the_mix_is_named_of_the_project() -> None:
    truth = Truth(Scenario(ScenarioKind.MIX), 1, CHANGED_ON, None, (HERE,))
    named = mark(truth, [DetectorAlert(50, Series(parameters.ETT, ()), Verdict.MIX)])
    assert (named.false, named.noticed) == (0, True)
    assert mark(truth, [DetectorAlert(50, Series(parameters.ETT, ()))]).false == 1


def test_scores_are_sums_of_marks() -> None:
    right = mark(CELL, [DetectorAlert(48, RIGHT, onset=46)])
    late = mark(
        CELL, [DetectorAlert(52, RIGHT, onset=49), DetectorAlert(60, Series(LAUNCH, THERE))]
    )
    missed = mark(CELL, [])
    total = score([right, late, missed])
    assert (total.fleets, total.false) == (3, 1)
    assert total.false_per_month == pytest.approx(30 / 27 / 3)
    assert (total.right_cohort, total.onset) == (Proportion(2, 3), Proportion(1, 2))
    assert (total.median_delay, total.right_first) == (6, Proportion(2, 2))
    assert total.precision == pytest.approx(2 / 3)
    assert total.f1 == pytest.approx(2 / 3)


def test_wilson_s_interval_is_as_published() -> None:
    assert Proportion(81, 263).bounds == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998
    assert Proportion(1, 29).bounds == pytest.approx((0.0061, 0.1718), abs=1e-4)
    assert Proportion(0, 20).bounds == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert (Proportion(0, 0).bounds, Proportion(0, 0).share) == ((0.0, 1.0), None)


def test_an_interval_of_a_count_is_that_of_a_small_part_of_many() -> None:
    low, high = Proportion(7, 1_000_000).bounds
    assert count_bounds(7) == pytest.approx((low * 1e6, high * 1e6), rel=1e-3)


def test_a_trial_is_read_as_it_was_written() -> None:
    trial = Trial("cell-1.6@60", 3, {"ours": (DetectorAlert(48, RIGHT, onset=46),)}, {"ours": 1.5})
    assert Trial.from_json(trial.to_json()) == trial
