from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from ett_service.detection.cells import Cells, centred
from ett_service.detection.day_memory import DayMemory, Evidence
from ett_service.detection.panel import (
    Fewest,
    Panel,
    as_normal,
    as_student,
    chance,
    panel,
    peaks,
    start_scores,
)
from ett_service.detection.sample import Floats
from ett_service.detection.window import groups
from tests.detection.samples import conditions

DAYS, RECENT = 42, 14


def _panel(
    level: Floats, *, days: float = 0.0, memory: DayMemory | None = None, curvature: float = 0.0
) -> Panel:
    """Return levels whose days have a variance of 1, of which *days* are that of conditions."""
    ones, none = np.ones_like(level), np.zeros(len(level))
    return Panel(
        level=level,
        precision=ones,
        background=0 * ones,
        count=ones.astype(np.int64),
        effective=ones,
        freedom=np.full(len(level), 1e6),
        memory=memory or DayMemory(none, none),
        days=np.full(len(level), days),
        third=none,
        curvature=curvature,
        evidence=Evidence(none, none, none, none),
    )


@pytest.mark.parametrize(("rough", "least"), [(1.0, 0.95), (2.0, 0.7)])
def test_what_days_share_is_not_that_of_the_calmest_cohorts(rough: float, least: float) -> None:
    """Days of every other cohort vary *rough* times as much."""
    memory, noise, number, shape = 0.6, 0.25, 12, (12, DAYS + RECENT)
    whole = groups([(("cluster", "abc"[at % 3]), ("model", str(at))) for at in range(number)])
    size, values = np.where(np.arange(number) % 2, rough, 1.0), np.full(shape, 8.0)
    drawn = []
    for seed in range(50):
        draws = np.random.default_rng(seed)
        level = size[:, None] * conditions(draws, *shape, memory)
        level += draws.normal(0, np.sqrt(noise), shape)
        of_cohort, weekday = np.ones(number), np.arange(shape[1]) % 7
        count, variance = values.astype(np.int64), 8 * noise * of_cohort
        cells = Cells(level, values, values, count, variance, of_cohort, DAYS, weekday)
        drawn.append(panel(centred(cells), whole).memory.covariance)
    members = whole.members.sum(axis=1)
    expected = memory * (whole.members @ size**2) / members**2
    found = np.mean(drawn, axis=0) / expected
    assert found[:number][size == rough].mean() > least
    assert found[members == number // 3].mean() > least


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


def test_a_small_change_of_two_weeks_needs_less_than_one_of_some_days() -> None:
    scores = start_scores(_panel(np.zeros((1, DAYS))), RECENT, Fewest(1, 1))

    def p_of(last: int, score: float) -> float:
        changed = np.zeros((1, RECENT))
        changed[0, last - 1] = score
        return float(peaks(replace(scores, score=changed), 1, 3).p[0])

    same = chance(np.array([3.7]), scores.share, scores.enough)[0]
    assert p_of(12, 3.7) < 0.7 * same
    assert same < p_of(4, 3.7) < 8 * same
    assert chance(np.array([3.87]), scores.share, scores.enough)[0] == pytest.approx(5e-4, rel=0.1)
    assert p_of(12, 3.68) == pytest.approx(5e-4, rel=0.1)
    assert p_of(4, 4.16) == pytest.approx(5e-4, rel=0.1)


def test_what_is_large_after_some_days_is_not_lost_among_old_starts() -> None:
    level = np.random.default_rng(3).normal(0, 0.1, (1, DAYS))
    level[0, -3:] += 3.5
    assert peaks(start_scores(_panel(level), RECENT, Fewest(1, 1)), 1, 3).p[0] < 1e-5


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


def test_conditions_that_slow_more_than_they_speed_up_give_no_more_false_alarms() -> None:
    """Levels rise further than they fall, and days hang together."""
    draws, series, decay, curvature, late = np.random.default_rng(4), 40_000, 0.6, 0.1, 7
    of_day = conditions(draws, series, DAYS, decay)
    level = of_day + curvature * (of_day**2 - 1)
    level /= level.std()
    memory = DayMemory(np.full(series, decay), np.full(series, decay))

    def rare(curvature: float) -> float:
        of = _panel(level, days=1.0, memory=memory, curvature=curvature)
        score = start_scores(of, RECENT, Fewest(1, 1)).score[:, late - 1]
        return float((score > 2.5).mean() / (score < -2.5).mean())

    assert rare(0.0) > 3
    assert 0.7 < rare(curvature) < 1.4
