"""Why ETT% changed between two windows: a split into parts that add up to the change, exactly.

Over cohorts ``c`` with weight ``w`` (their share of all time), ratio ``r`` and category shares
``s``, and with a bar for the middle of both windows' values::

    change        = sum of all parts
    mix(c)        = (w1 - w0) * (r_bar - R_bar)
    within(c, k)  = -w_bar * (s1 - s0)          for each category k but effective training

Time may be partitioned by other words than categories, as long as effective training is one.
``R`` is the fleet's ratio. It holds because weights sum to 1 in both windows, and because a
cohort's effective share is what its other categories leave. A cohort that has time in one window
only is all mix: its ratio counts as the same in the window that does not know it. The midpoints
make the split symmetric: both windows swapped turn every part's sign. Known in economics as the
shift-share or Marshall-Edgeworth form.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeAlias, TypeVar

from ett_service.core.words import Category, Word

K = TypeVar("K")
W = TypeVar("W", bound=Word)

Times: TypeAlias = Mapping[W, int]
"""Microseconds by word of a partition, weighted or not: what is absent is 0."""

UNITS = 10**12
"""Parts are whole numbers of units; so many make a ratio of 1."""

_EFFECTIVE: Word = Category.EFFECTIVE_TRAINING
_NOTHING = Fraction(0)
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class ChangePart(Generic[K, W]):
    """One cause of the change."""

    cohort: K
    word: W | None  #: of the partition, such as a category; None for mix
    change: Fraction  #: of the fleet's ratio
    base: Fraction  #: mix: the cohort's weight; within: the word's share of the cohort
    current: Fraction


@dataclass(frozen=True, slots=True)
class Decomposition(Generic[K, W]):
    """Both windows' ratios and the parts of their difference, none of which is 0."""

    base: Fraction
    current: Fraction
    parts: tuple[ChangePart[K, W], ...]

    @property
    def change(self) -> Fraction:
        """What the parts sum to."""
        return self.current - self.base


def decompose(
    base: Mapping[K, Times[Category]], current: Mapping[K, Times[Category]]
) -> Decomposition[K, Category]:
    """Split the change of effective time over all time by category."""
    return decompose_by(tuple(Category), base, current)


def decompose_by(
    words: Sequence[W], base: Mapping[K, Times[W]], current: Mapping[K, Times[W]]
) -> Decomposition[K, W]:
    """Split the change of effective time over all time; the parts come cohort by cohort.

    *words* partition time, and ``Category.EFFECTIVE_TRAINING`` is one of them. Where a window
    holds no time there is nothing to compare, and no parts.
    """
    before, after = _Window(base), _Window(current)
    parts: list[ChangePart[K, W]] = []
    if before.us and after.us:
        middle = (before.ratio + after.ratio) / 2
        for cohort in dict.fromkeys((*base, *current)):
            parts += _parts(cohort, words, before, after, middle)
    return Decomposition(before.ratio, after.ratio, tuple(part for part in parts if part.change))


class _Window(Generic[K, W]):
    """The time of one window, by cohort."""

    def __init__(self, times: Mapping[K, Times[W]]) -> None:
        self._times: Mapping[K, Mapping[str, int]] = {
            cohort: {str(word): us for word, us in by_word.items()}
            for cohort, by_word in times.items()
        }
        self._us = {cohort: sum(by_word.values()) for cohort, by_word in times.items()}
        self.us = sum(self._us.values())
        effective_us = sum(by_word.get(_EFFECTIVE, 0) for by_word in self._times.values())
        self.ratio = _over(effective_us, self.us)

    def weight(self, cohort: K) -> Fraction:
        return _over(self._us.get(cohort, 0), self.us)

    def knows(self, cohort: K) -> bool:
        return self._us.get(cohort, 0) > 0

    def share(self, cohort: K, word: Word) -> Fraction:
        return _over(self._times[cohort].get(word, 0), self._us[cohort])


def _over(us: int, whole_us: int) -> Fraction:
    return Fraction(us, whole_us) if whole_us else _NOTHING


def _parts(
    cohort: K, words: Sequence[W], before: _Window[K, W], after: _Window[K, W], fleet: Fraction
) -> Iterator[ChangePart[K, W]]:
    windows = [window for window in (before, after) if window.knows(cohort)]
    if not windows:
        return
    weights = before.weight(cohort), after.weight(cohort)
    ratios = [window.share(cohort, _EFFECTIVE) for window in windows]
    ratio = sum(ratios, _NOTHING) / len(ratios)
    yield ChangePart(cohort, None, (weights[1] - weights[0]) * (ratio - fleet), *weights)
    if len(windows) == 1:
        return
    weight = sum(weights, _NOTHING) / 2
    for word in words:
        if word != _EFFECTIVE:
            shares = before.share(cohort, word), after.share(cohort, word)
            yield ChangePart(cohort, word, -weight * (shares[1] - shares[0]), *shares)


@dataclass(frozen=True, slots=True)
class Units:
    """A decomposition in whole ``UNITS``: here, too, the parts sum to current minus base."""

    base: int
    current: int
    parts: tuple[int, ...]  #: in the order of the decomposition's


def in_units(decomposition: Decomposition[K, W]) -> Units:
    """Round so that the sum still holds: by largest remainder, ties to the earlier part.

    No part is moved by a whole unit.
    """
    base, current = _nearest(decomposition.base), _nearest(decomposition.current)
    if not decomposition.parts:
        return Units(base, current, ())
    changes = [part.change for part in decomposition.parts]
    return Units(base, current, _apportioned(changes, current - base))


def _nearest(ratio: Fraction) -> int:
    return (ratio * UNITS + _HALF).__floor__()


def _apportioned(changes: Sequence[Fraction], whole: int) -> tuple[int, ...]:
    """Round *changes* down to units, then up where most was cut off, until they sum to *whole*."""
    divided = [
        (*divmod(change.numerator * UNITS, change.denominator), change.denominator)
        for change in changes
    ]
    floors = [floor for floor, _, _ in divided]
    # Two remainders differ by one over both denominators or more, so that so many bits tell them
    # apart; integers are compared many times faster than fractions.
    bits = 2 * max(denominator.bit_length() for _, _, denominator in divided)
    remainders = [(rest << bits) // denominator for _, rest, denominator in divided]
    by_remainder = sorted(range(len(floors)), key=remainders.__getitem__, reverse=True)
    for place in by_remainder[: whole - sum(floors)]:
        floors[place] += 1
    return tuple(floors)
