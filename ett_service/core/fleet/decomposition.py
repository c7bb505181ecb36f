"""Why ETT% changed between two windows: a split into parts that add up to the change, exactly.

Over cohorts ``c`` with weight ``w`` (their share of all time), ratio ``r`` and category shares
``s``, and with a bar for the middle of both windows' values::

    change        = sum of all parts
    mix(c)        = (w1 - w0) * (r_bar - R_bar)
    within(c, k)  = -w_bar * (s1 - s0)          for each category k but effective training

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

from ett_service.core.words import Category

K = TypeVar("K")

Times: TypeAlias = Mapping[Category, int]
"""Microseconds by category, weighted or not: what is absent is 0."""

UNITS = 10**12
"""Parts are told in whole units, so many of which make a ratio of 1."""

_NOTHING = Fraction(0)
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class ChangePart(Generic[K]):
    """One cause of the change."""

    cohort: K
    category: Category | None  #: None for mix
    change: Fraction  #: of the fleet's ratio
    base: Fraction  #: mix: the cohort's weight; within: the category's share of the cohort
    current: Fraction


@dataclass(frozen=True, slots=True)
class Decomposition(Generic[K]):
    """Both windows' ratios and the parts of their difference, none of which is 0."""

    base: Fraction
    current: Fraction
    parts: tuple[ChangePart[K], ...]

    @property
    def change(self) -> Fraction:
        """What the parts sum to."""
        return self.current - self.base


def decompose(base: Mapping[K, Times], current: Mapping[K, Times]) -> Decomposition[K]:
    """Split the change of effective time over all time; the parts come cohort by cohort.

    Where a window holds no time there is nothing to compare, and no parts.
    """
    before, after = _Window(base), _Window(current)
    parts: list[ChangePart[K]] = []
    if before.us and after.us:
        middle = (before.ratio + after.ratio) / 2
        for cohort in dict.fromkeys((*base, *current)):
            parts += _parts(cohort, before, after, middle)
    return Decomposition(before.ratio, after.ratio, tuple(part for part in parts if part.change))


class _Window(Generic[K]):
    """The time of one window, by cohort."""

    def __init__(self, times: Mapping[K, Times]) -> None:
        self._times = times
        self._us = {cohort: sum(by_category.values()) for cohort, by_category in times.items()}
        self.us = sum(self._us.values())
        effective_us = sum(
            by_category.get(Category.EFFECTIVE_TRAINING, 0) for by_category in times.values()
        )
        self.ratio = _over(effective_us, self.us)

    def weight(self, cohort: K) -> Fraction:
        return _over(self._us.get(cohort, 0), self.us)

    def knows(self, cohort: K) -> bool:
        return self._us.get(cohort, 0) > 0

    def share(self, cohort: K, category: Category) -> Fraction:
        return _over(self._times[cohort].get(category, 0), self._us[cohort])


def _over(us: int, whole_us: int) -> Fraction:
    return Fraction(us, whole_us) if whole_us else _NOTHING


def _parts(
    cohort: K, before: _Window[K], after: _Window[K], fleet: Fraction
) -> Iterator[ChangePart[K]]:
    windows = [window for window in (before, after) if window.knows(cohort)]
    if not windows:
        return
    weights = before.weight(cohort), after.weight(cohort)
    ratios = [window.share(cohort, Category.EFFECTIVE_TRAINING) for window in windows]
    ratio = sum(ratios, _NOTHING) / len(ratios)
    yield ChangePart(cohort, None, (weights[1] - weights[0]) * (ratio - fleet), *weights)
    if len(windows) == 1:
        return
    weight = sum(weights, _NOTHING) / 2
    for category in Category:
        if category is not Category.EFFECTIVE_TRAINING:
            shares = before.share(cohort, category), after.share(cohort, category)
            yield ChangePart(cohort, category, -weight * (shares[1] - shares[0]), *shares)


@dataclass(frozen=True, slots=True)
class Units:
    """A decomposition in whole ``UNITS``: here, too, the parts sum to current minus base."""

    base: int
    current: int
    parts: tuple[int, ...]  #: in the order of the decomposition's


def in_units(decomposition: Decomposition[K]) -> Units:
    """Round so that the sum still holds: by largest remainder, ties to the earlier part.

    No part is moved by a whole unit.
    """
    base, current = _nearest(decomposition.base), _nearest(decomposition.current)
    if not decomposition.parts:
        return Units(base, current, ())
    exact = [part.change * UNITS for part in decomposition.parts]
    return Units(base, current, _apportioned(exact, current - base))


def _nearest(ratio: Fraction) -> int:
    return (ratio * UNITS + _HALF).__floor__()


def _apportioned(exact: Sequence[Fraction], whole: int) -> tuple[int, ...]:
    """Round *exact* down, then up where most was cut off, until they sum to *whole*."""
    floors = [value.__floor__() for value in exact]
    by_remainder = sorted(
        range(len(exact)), key=lambda place: exact[place] - floors[place], reverse=True
    )
    for place in by_remainder[: whole - sum(floors)]:
        floors[place] += 1
    return tuple(floors)
