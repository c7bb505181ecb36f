"""Draws depend on the seed and the name alone, and have the requested spread."""

from collections import Counter
from math import log
from statistics import fmean, median, stdev

import pytest

from ett_service.demo.calendar import SECOND, Draws

MANY = 20_000


def test_a_name_gives_the_same_draws_whatever_others_draw() -> None:
    alone = [Draws(7, "a").share() for _ in range(3)]
    first, other = Draws(7, "a"), Draws(7, "b")
    assert first.share() == alone[0]
    assert other.share() != alone[0]
    assert Draws(8, "a").share() != alone[0]


def test_a_duration_has_its_median_and_its_spread() -> None:
    draws = Draws(7, "lengths")
    lengths = [draws.about(60 * SECOND, 0.5) for _ in range(MANY)]
    assert median(lengths) == pytest.approx(60 * SECOND, rel=0.02)
    assert stdev(log(length) for length in lengths) == pytest.approx(0.5, rel=0.02)


def test_waits_and_counts_have_their_means() -> None:
    draws = Draws(7, "means")
    assert fmean(draws.wait(10.0 * SECOND) for _ in range(MANY)) == pytest.approx(1e7, rel=0.03)
    assert fmean(draws.count(2.5) for _ in range(MANY)) == pytest.approx(2.5, rel=0.03)
    assert fmean(draws.misses(0.4) for _ in range(MANY)) == pytest.approx(1.5, rel=0.03)
    assert draws.count(0.0) == 0


def test_picks_follow_their_weights() -> None:
    draws = Draws(7, "picks")
    picked = Counter(draws.pick("ab", (1.0, 3.0)) for _ in range(MANY))
    assert picked["b"] / MANY == pytest.approx(0.75, abs=0.01)
    assert sum(draws.chance(0.1) for _ in range(MANY)) / MANY == pytest.approx(0.1, abs=0.01)
