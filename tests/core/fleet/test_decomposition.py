"""A change of ETT% is split into parts that add up to it, whatever the two windows hold."""

from collections.abc import Mapping
from fractions import Fraction
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ett_service.core.fleet.decomposition import (
    UNITS,
    ChangePart,
    Decomposition,
    decompose,
    in_units,
)
from ett_service.core.words import Category

Windows = tuple[dict[str, dict[Category, int]], dict[str, dict[Category, int]]]

EFFECTIVE, COMPILE, WAIT = (
    Category.EFFECTIVE_TRAINING,
    Category.PT2_COMPILE,
    Category.RESTART_WAIT,
)

_some = (EFFECTIVE, COMPILE, WAIT, Category.STALLED)
_times = st.dictionaries(st.sampled_from(_some), st.integers(0, 10**15), max_size=4)
_window = st.dictionaries(st.sampled_from("abcd"), _times, max_size=4)
windows = st.tuples(_window, _window)


def _changes(
    decomposition: Decomposition[str, Category],
) -> dict[tuple[str, Category | None], Fraction]:
    return {(part.cohort, part.word): part.change for part in decomposition.parts}


def _holds_time(window: Mapping[str, Mapping[Category, int]]) -> bool:
    return any(sum(times.values()) for times in window.values())


def test_a_longer_compile_of_one_cohort_is_one_part() -> None:
    base = {"a": {EFFECTIVE: 90, COMPILE: 10}, "b": {EFFECTIVE: 50, WAIT: 50}}
    current = {"a": {EFFECTIVE: 70, COMPILE: 30}, "b": {EFFECTIVE: 50, WAIT: 50}}

    decomposition = decompose(base, current)

    # a is half of the fleet, and 20 % of its time more went into compiling.
    assert decomposition.change == Fraction(-10, 100)
    assert decomposition.parts == (
        ChangePart("a", COMPILE, Fraction(-1, 10), Fraction(10, 100), Fraction(30, 100)),
    )


def test_cohorts_that_only_change_their_size_change_the_mix_and_nothing_else() -> None:
    base = {"a": {EFFECTIVE: 90, COMPILE: 10}, "b": {EFFECTIVE: 50, WAIT: 50}}
    current = {"a": {EFFECTIVE: 90, COMPILE: 10}, "b": {EFFECTIVE: 150, WAIT: 150}}

    decomposition = decompose(base, current)

    # From (90 + 50) / 200 to (90 + 150) / 400; the middle of the fleet is 0.65. A quarter of all
    # weight moved from a, which lies 0.25 above it, to b, which lies 0.15 below.
    assert decomposition.change == Fraction(-1, 10)
    assert _changes(decomposition) == {
        ("a", None): Fraction(-1, 4) * Fraction(25, 100),
        ("b", None): Fraction(1, 4) * Fraction(-15, 100),
    }


def test_a_cohort_that_one_window_does_not_know_is_all_mix() -> None:
    base = {"a": {EFFECTIVE: 80, WAIT: 20}}
    current = {"a": {EFFECTIVE: 80, WAIT: 20}, "new": {EFFECTIVE: 40, COMPILE: 60}}

    decomposition = decompose(base, current)

    # From 0.8 to 0.6, in the middle 0.7: half of the weight moved to a cohort of 0.4.
    assert _changes(decomposition) == {
        ("a", None): Fraction(-1, 2) * Fraction(1, 10),
        ("new", None): Fraction(1, 2) * Fraction(-3, 10),
    }
    assert decomposition.change == Fraction(-2, 10)


def test_a_window_without_time_is_not_compared() -> None:
    full = {"a": {EFFECTIVE: 8, WAIT: 2}}

    assert decompose({}, full) == Decomposition(Fraction(0), Fraction(8, 10), ())
    assert decompose(full, {"a": {EFFECTIVE: 0}}).parts == ()
    assert decompose({}, {}) == Decomposition(Fraction(0), Fraction(0), ())
    assert in_units(decompose({}, full)).parts == ()


@given(windows)
def test_the_parts_sum_to_the_change(drawn: Windows) -> None:
    base, current = drawn
    assume(_holds_time(base) and _holds_time(current))

    decomposition = decompose(base, current)

    assert sum((part.change for part in decomposition.parts), Fraction(0)) == decomposition.change


@given(windows)
def test_the_parts_as_they_are_printed_sum_to_the_printed_change(drawn: Windows) -> None:
    base, current = drawn
    assume(_holds_time(base) and _holds_time(current))
    decomposition = decompose(base, current)

    printed = in_units(decomposition)

    assert sum(printed.parts) == printed.current - printed.base
    for units, part in zip(printed.parts, decomposition.parts, strict=True):
        assert abs(units - part.change * UNITS) < 1
    assert abs(printed.base - decomposition.base * UNITS) <= Fraction(1, 2)


@settings(max_examples=30)
@given(windows, st.randoms(use_true_random=False))
def test_the_order_of_cohorts_changes_nothing(drawn: Windows, chance: Random) -> None:
    base, current = drawn
    names = sorted(base.keys() | current.keys())
    chance.shuffle(names)
    shuffled = [{name: window[name] for name in names if name in window} for window in drawn]

    assert _changes(decompose(*shuffled)) == _changes(decompose(base, current))


@settings(max_examples=30)
@given(windows, st.integers(1, 1000), st.integers(1, 1000))
def test_how_much_time_a_window_holds_in_all_changes_nothing(
    drawn: Windows, first: int, second: int
) -> None:
    scaled = [
        {
            cohort: {category: us * factor for category, us in times.items()}
            for cohort, times in window.items()
        }
        for window, factor in zip(drawn, (first, second), strict=True)
    ]

    assert _changes(decompose(*scaled)) == _changes(decompose(*drawn))


@settings(max_examples=30)
@given(windows)
def test_both_windows_swapped_turn_the_sign_of_every_part(drawn: Windows) -> None:
    base, current = drawn

    there, back = _changes(decompose(base, current)), _changes(decompose(current, base))

    assert {key: -change for key, change in there.items()} == back
