import numpy as np
import pytest
from scipy.stats import norm, t

from ett_service.detection.panel import (
    Cells,
    Fewest,
    Panel,
    as_normal,
    as_student,
    centred,
    chance,
    panel,
    peaks,
    start_scores,
)
from ett_service.detection.window import DayMemory, Evidence, groups
from tests.detection.samples import COHORTS

DAYS, RECENT = 42, 14


def _panel(level: np.typing.NDArray[np.float64]) -> Panel:
    ones, none = np.ones_like(level), DayMemory(*np.zeros((2, len(level))))
    return Panel(
        level,
        ones,
        0 * ones,
        ones.astype(np.int64),
        ones,
        np.full(len(level), 1e6),
        none,
        np.zeros(len(level)),
        Evidence(*np.zeros((2, 2, 3))),
    )


def test_the_chance_of_the_largest_score_is_bounded_and_the_bound_is_near() -> None:
    noise = _panel(np.random.default_rng(1).normal(0, 1, (20_000, DAYS)))
    scores = start_scores(noise, RECENT, Fewest(1, 1))
    highest = np.where(scores.enough, scores.score, -np.inf).max(axis=1)
    for limit in (2.5, 3.0):
        bound = chance(np.array([limit]), scores.share[:1], scores.enough[:1])[0]
        seen = (highest > limit).mean()
        assert seen <= bound * 1.1
        assert seen >= bound * 0.6


def test_the_chances_of_noise_are_no_smaller_than_they_say() -> None:
    noise = _panel(np.random.default_rng(2).normal(0, 1, (20_000, DAYS)))
    best = peaks(start_scores(noise, RECENT, Fewest(1, 1)), 1, 3)
    assert (best.p < 0.01).mean() <= 0.011


def test_the_start_of_a_step_is_where_the_score_is_largest() -> None:
    level = np.random.default_rng(3).normal(0, 0.1, (1, DAYS))
    level[0, -6:] += 1.0
    assert peaks(start_scores(_panel(level), RECENT, Fewest(1, 1)), 1, 3).last.tolist() == [6]


def test_a_start_needs_values_on_both_sides() -> None:
    scores = start_scores(_panel(np.zeros((1, DAYS))), RECENT, Fewest(5, 30))
    assert scores.enough[0].tolist() == [False] * 4 + [True] * 8 + [False] * 2


@pytest.mark.parametrize("freedom", [5.0, 27.0, 200.0])
@pytest.mark.parametrize("score", [-3.0, 0.5, 4.0])
def test_a_students_t_becomes_a_normal_score_and_back(score: float, freedom: float) -> None:
    normal = as_normal(np.array([score]), np.array([freedom]))
    assert norm.sf(abs(normal[0])) == pytest.approx(t.sf(abs(score), freedom), rel=0.12)
    assert as_student(normal, np.array([freedom]))[0] == pytest.approx(score)


def _cells(level: np.typing.NDArray[np.float64], rows: np.typing.NDArray[np.float64]) -> Cells:
    weekday = np.arange(level.shape[1]) % 7
    ones = np.ones(len(level))
    return centred(Cells(level, rows, rows, rows.astype(np.int64), ones, DAYS - RECENT, weekday))


def _of_clusters(seed: int, spread: float) -> Cells:
    """Return levels that cohorts of one cluster share as far as *spread* says, beside their own."""
    draws = np.random.default_rng(seed)
    shared = np.repeat(draws.normal(0, spread, (2, DAYS)), 2, axis=0)
    return _cells(shared + draws.normal(0, 0.2, shared.shape), np.full(shared.shape, 25.0))


def test_what_the_other_cohorts_of_a_cluster_show_on_a_day_is_taken_off_one() -> None:
    cells = _of_clusters(5, 0.8)
    left = panel(cells, groups(COHORTS)).level[:4]
    assert (left.std(axis=1) < 0.5 * cells.level.std(axis=1)).all()


def test_cohorts_that_share_nothing_say_nothing_of_each_other() -> None:
    taken = [
        float(panel(_of_clusters(seed, 0.0), groups(COHORTS)).background[:4].std())
        for seed in range(20)
    ]
    assert np.mean(taken) < 0.3 * 0.2


def test_a_change_of_one_cohort_of_a_cluster_is_still_its_own() -> None:
    cells = _of_clusters(6, 0.8)
    cells.level[0, -8:] += 1.0
    level = panel(cells, groups(COHORTS)).level
    change = level[:4, -8:].mean(axis=1) - level[:4, :-8].mean(axis=1)
    assert change[0] > 0.8
    assert int(change.argmax()) == 0


def test_a_cohort_that_is_new_says_little_of_its_neighbours() -> None:
    """Its level is measured from two values, so it seems off on all the days after them."""
    cells = _of_clusters(7, 0.3)
    rows = cells.weight.copy()
    rows[1, : DAYS - RECENT - 2] = 0.0
    rows[1, DAYS - RECENT - 2 : DAYS - RECENT] = 1.0
    off = cells.level.copy()
    off[1, DAYS - RECENT :] += 1.5
    late = slice(DAYS - RECENT, DAYS)
    new = panel(_cells(off, rows), groups(COHORTS)).background[0, late]
    usual = panel(_cells(off, cells.weight), groups(COHORTS)).background[0, late]
    assert abs(new.mean()) < 0.3 * abs(usual.mean())
