"""Two runs confirm, refute or leave open what a search found."""

import math
import random
from collections.abc import Iterable, Sequence

import pytest

from ett_service.core.regressions.confirmation import (
    MOST_STARTS,
    Chance,
    Settled,
    Settlement,
    Start,
    chance,
    in_common,
    settle,
    starts_needed,
)

FIRST = ("first", "")


def _side(logs: Iterable[float], name: str = "", *, of_one: bool = False) -> list[Start]:
    return [
        Start(name if of_one else f"{name}{place}", FIRST, log) for place, log in enumerate(logs)
    ]


def _settled(base: Sequence[float], other: Sequence[float], ratio: float, sigma: float) -> Settled:
    """Settle a finding whose values were 0 before its onset."""
    return _settled_beside(base, other, ratio, sigma, before=[0.0] * 20)


def _settled_beside(
    base: Sequence[float],
    other: Sequence[float],
    ratio: float = 1.6,
    sigma: float = 0.2,
    *,
    before: Sequence[float] = (),
    after: Sequence[float] = (),
) -> Settled:
    sides = [_side(logs, name) for logs, name in ((base, "base"), (other, "other"))]
    levels = {"before": _side(before, "before"), "after": _side(after, "after")}
    return settle(*sides, **levels, ratio=ratio, chance=Chance(sigma, 0.5))


def test_chance_is_the_spread_about_each_sides_own_middle() -> None:
    draw = random.Random(3)
    before = [(f"a{place}", draw.gauss(0, 0.2)) for place in range(400)]
    after = [(f"b{place}", draw.gauss(2, 0.2)) for place in range(400)]
    alone, outlier = chance(before, after), chance([*before, ("c", 50.0)], after)
    assert alone is not None
    assert outlier is not None
    assert alone.sigma == pytest.approx(0.2, rel=0.1)
    assert outlier.sigma == pytest.approx(0.2, rel=0.1), "one outlier is nothing"
    assert chance(before, [("b", 1.0)]) is None


@pytest.mark.parametrize("share", [0.0, 0.8])
def test_what_starts_of_one_job_share_is_estimated_from_the_values(share: float) -> None:
    draw = random.Random(4)
    sides: list[list[tuple[str, float]]] = [[], []]
    for job in range(200):
        common = draw.gauss(0, math.sqrt(share))
        for _ in range(4):
            log = common + draw.gauss(0, math.sqrt(1 - share))
            sides[job % 2].append((f"job-{job}", log))
    told = chance(*sides)
    assert told is not None
    assert told.of_job == pytest.approx(share, abs=0.15)


def test_as_many_starts_as_named_show_the_change_in_80_of_100_cases() -> None:
    draw = random.Random(5)
    ratio, sigma = 1.5, 0.35
    starts = starts_needed(ratio, sigma)
    shown = 0
    for _ in range(2_000):
        base = [draw.gauss(0, sigma) for _ in range(starts)]
        other = [draw.gauss(math.log(ratio), sigma) for _ in range(starts)]
        shown += _settled(base, other, ratio, sigma).outcome is Settlement.CONFIRMED
    assert 0.77 < shown / 2_000 < 0.9


def test_many_starts_of_one_job_say_little_more_than_one() -> None:
    base, other = (_side([log] * 50, name, of_one=True) for log, name in ((0.0, "a"), (0.3, "b")))
    of_two = settle(base, other, before=(), after=(), ratio=1.35, chance=Chance(0.2, 0.5))
    of_many = _settled([0.0] * 50, [0.3] * 50, 1.35, 0.2)
    assert of_many.outcome is Settlement.CONFIRMED
    assert of_two.outcome is Settlement.OPEN


def test_only_starts_of_one_state_are_compared() -> None:
    hits = [Start(f"a{place}", ("first", "hit"), 0.0) for place in range(4)]
    misses = [Start(f"a{place}", ("first", "miss"), 2.0) for place in range(4)]
    warm = [Start("b", ("first", "hit"), 0.5), Start("b", ("restart", "hit"), 9.0)]
    base, other = in_common([*hits, *misses], warm)
    assert (base, other) == (hits, warm[:1])
    settled = settle(base, other, before=(), after=(), ratio=1.65, chance=Chance(0.1, 0.5))
    assert math.log(settled.runs.ratio) == pytest.approx(0.5)
    mixed = settle(
        [*hits, *misses],
        [*warm[:1], Start("c", ("first", "miss"), 2.5)],
        before=(),
        after=(),
        ratio=1.65,
        chance=Chance(0.1, 0.5),
    )
    assert math.log(mixed.runs.ratio) == pytest.approx(0.5)


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
    settled = _settled([0.0] * 4, other, 1.6, 0.2)
    assert settled.outcome is outcome
    assert settled.runs.low < times < settled.runs.high
    assert settled.runs.ratio == pytest.approx(times)


def test_what_became_faster_is_confirmed_by_a_faster_run() -> None:
    faster = [math.log(0.5)] * 4
    assert _settled([0.0] * 4, faster, 0.5, 0.2).outcome is Settlement.CONFIRMED
    assert _settled([0.0] * 4, [0.0] * 4, 0.5, 0.2).outcome is Settlement.REFUTED
    assert _settled(faster, faster, 0.5, 0.2).outcome is Settlement.STANDS


SLOW = math.log(1.6)


def test_two_runs_that_are_both_slow_silence_nothing() -> None:
    settled = _settled([SLOW] * 4, [SLOW] * 4, 1.6, 0.2)
    assert settled.outcome is Settlement.STANDS
    assert settled.of_baseline is not None
    assert settled.of_baseline.ratio == pytest.approx(1.6)
    assert settled.of_baseline.low < 1.6 < settled.of_baseline.high


@pytest.mark.parametrize(
    ("level", "outcome"),
    [(0.0, Settlement.REFUTED), (SLOW / 2, Settlement.OPEN), (SLOW, Settlement.STANDS)],
)
def test_where_nothing_comparable_ran_before_the_present_level_decides(
    level: float, outcome: Settlement
) -> None:
    settled = _settled_beside([level] * 4, [level] * 4, after=[SLOW] * 20)
    assert (settled.outcome, settled.of_baseline) == (outcome, None)
    assert settled.of_present is not None


def test_two_runs_that_are_alike_and_like_nothing_known_settle_nothing() -> None:
    assert _settled_beside([SLOW] * 4, [SLOW] * 4).outcome is Settlement.OPEN
