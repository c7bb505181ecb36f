"""Exact shares: which phase and which cohort a change of a figure lies in.

A mean of sums is the sum of means, so a change of mean time to start is the sum of the changes of
its phases; with ``n1`` rows of a stratum after the onset, ``m0`` and ``m1`` its means::

    change(k) = sum of n1(s) (m1(s, k) - m0(s, k)) over strata s    share(k) = change(k) / change

Over cohorts, with ``w`` their parts of all rows, it is the shift-share form of
``core.decomposition``: ``w_bar (m1 - m0) + (w1 - w0) (m_bar - M_bar)``. Everything is counted in
whole microseconds and divided last; a share may be negative, or more than 1.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from ett_service.core.decomposition import Decomposition
from ett_service.detection.dimensions import Bools
from ett_service.detection.sample import Ints

K = TypeVar("K")
MIX = "mix"

_TRIMMED_PERCENT = 5
_FEWEST_TRIMMED = 20


def middle(us: Ints, after: Bools) -> Bools:
    """Mark the rows of each side without its longest and shortest: one long wait says little."""
    kept = np.ones(len(us), dtype=np.bool_)
    for side in (~after, after):
        if np.count_nonzero(side) >= _FEWEST_TRIMMED:
            low, high = np.percentile(us[side], [_TRIMMED_PERCENT, 100 - _TRIMMED_PERCENT])
            kept &= ~side | ((us >= low) & (us <= high))
    return kept


def by_part(parts: Mapping[str, Ints], after: Bools, strata: Sequence[int]) -> dict[str, Fraction]:
    """Share out the change of the sum of *parts* among them; nothing where it did not change."""
    sides = _places(after, strata)
    changes: dict[str, Fraction] = {}
    for name, us in parts.items():
        told = us.tolist()
        changes[name] = sum(
            (
                sum(told[place] for place in now)
                - Fraction(len(now), len(was)) * sum(told[place] for place in was)
                for was, now in sides
            ),
            Fraction(0),
        )
    return _shared(changes)


def by_cohort(us: Ints, after: Bools, cohorts: Sequence[K]) -> dict[K, Fraction]:
    """Share out the change of the mean of *us* among the cohorts of its rows."""
    sums: dict[K, list[list[int]]] = {}
    for one, is_after, cohort in zip(us.tolist(), after.tolist(), cohorts, strict=True):
        side = sums.setdefault(cohort, [[0, 0], [0, 0]])[is_after]
        side[0] += one
        side[1] += 1
    rows = [sum(each[side][1] for each in sums.values()) for side in (0, 1)]
    if not all(rows):
        return {}
    means = [Fraction(sum(each[side][0] for each in sums.values()), rows[side]) for side in (0, 1)]
    mean = (means[0] + means[1]) / 2
    return _shared({key: _moved(each, rows, mean) for key, each in sums.items()})


def by_category(split: Decomposition[K]) -> dict[str, Fraction]:
    """Share out a change of ETT% among categories, and ``mix``."""
    changes: defaultdict[str, Fraction] = defaultdict(Fraction)
    for part in split.parts:
        changes[MIX if part.category is None else part.category.value] += part.change
    return _shared(changes)


def by_cohort_of(split: Decomposition[K]) -> dict[K, Fraction]:
    """Share out a change of ETT% among cohorts."""
    changes: defaultdict[K, Fraction] = defaultdict(Fraction)
    for part in split.parts:
        changes[part.cohort] += part.change
    return _shared(changes)


def _places(after: Bools, strata: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the places of rows before and after, of strata that have both."""
    sides: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for place, (is_after, stratum) in enumerate(zip(after.tolist(), strata, strict=True)):
        sides[stratum][is_after].append(place)
    return [one for one in sides.values() if all(one)]


def _moved(sums: Sequence[Sequence[int]], rows: Sequence[int], middle_of_all: Fraction) -> Fraction:
    """Return what one cohort adds to the change of the mean of all."""
    weights = [Fraction(count, whole) for (_, count), whole in zip(sums, rows, strict=True)]
    known = [Fraction(us, count) for us, count in sums if count]
    mix = (weights[1] - weights[0]) * (sum(known, Fraction(0)) / len(known) - middle_of_all)
    within = sum(weights, Fraction(0)) / 2 * (known[1] - known[0]) if len(known) > 1 else 0
    return mix + within


def _shared(changes: Mapping[K, Fraction]) -> dict[K, Fraction]:
    whole = sum(changes.values(), Fraction(0))
    if not whole:
        return {}
    shares = {key: change / whole for key, change in changes.items() if change}
    return dict(sorted(shares.items(), key=lambda one: (-abs(one[1]), str(one[0]))))
