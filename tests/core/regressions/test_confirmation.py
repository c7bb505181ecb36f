"""Two runs confirm, refute or leave open what a search found."""

import math
import random

import pytest

from ett_service.core.regressions.confirmation import (
    MOST_STARTS,
    Settlement,
    settle,
    spread,
    starts_needed,
)


def test_the_spread_is_that_about_each_sides_own_middle() -> None:
    draw = random.Random(3)
    before = [draw.gauss(0, 0.2) for _ in range(400)]
    after = [draw.gauss(2, 0.2) for _ in range(400)]
    assert spread(before, after) == pytest.approx(0.2, rel=0.1)
    assert spread([*before, 50.0], after) == pytest.approx(0.2, rel=0.1), "one outlier is nothing"
    assert spread(before, [1.0]) is None


def test_as_many_starts_as_named_show_the_change_in_80_of_100_cases() -> None:
    draw = random.Random(5)
    ratio, sigma = 1.5, 0.35
    starts = starts_needed(ratio, sigma)
    shown = 0
    for _ in range(2_000):
        base = [draw.gauss(0, sigma) for _ in range(starts)]
        other = [draw.gauss(math.log(ratio), sigma) for _ in range(starts)]
        shown += settle(base, other, ratio=ratio, sigma=sigma).outcome is Settlement.CONFIRMED
    assert 0.77 < shown / 2_000 < 0.9


def test_a_smaller_change_and_a_wider_spread_need_more_starts() -> None:
    assert starts_needed(1.2, 0.3) > starts_needed(1.6, 0.3) > starts_needed(1.6, 0.1) >= 1
    assert starts_needed(1.5, 0.2) == starts_needed(1 / 1.5, 0.2)
    assert starts_needed(1.0001, 1.0) == MOST_STARTS


@pytest.mark.parametrize(
    ("times", "outcome"),
    [(1.6, Settlement.CONFIRMED), (1.0, Settlement.REFUTED), (1.2, Settlement.OPEN)],
)
def test_the_second_run_decides(times: float, outcome: Settlement) -> None:
    other = [math.log(times)] * 4
    settled = settle([0.0] * 4, other, ratio=1.6, sigma=0.2)
    assert settled.outcome is outcome
    assert settled.low < times < settled.high
    assert settled.ratio == pytest.approx(times)


def test_what_became_faster_is_confirmed_by_a_faster_run() -> None:
    faster = [math.log(0.5)] * 4
    assert settle([0.0] * 4, faster, ratio=0.5, sigma=0.2).outcome is Settlement.CONFIRMED
    assert settle(faster, [0.0] * 4, ratio=0.5, sigma=0.2).outcome is Settlement.REFUTED
