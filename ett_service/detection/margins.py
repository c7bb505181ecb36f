"""Which cohorts are looked at together: each by itself, each value of a dimension, and all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ett_service.core.regression import Cohort
from ett_service.detection.sample import Floats


@dataclass(frozen=True, slots=True)
class Groups:
    """Sets of cohorts; each set is there once, under the first of its names."""

    names: tuple[Cohort, ...]
    members: Floats  #: groups by cohorts, 1 where the cohort is in the group
    single: tuple[bool, ...]  #: whether the group is one cohort

    def place(self, name: Cohort) -> int | None:
        """Return where a group stands, by its name."""
        return self.names.index(name) if name in self.names else None


def groups(cohorts: Sequence[Cohort]) -> Groups:
    """Return all groups of *cohorts*, the single ones first, in their order."""
    found: dict[frozenset[int], Cohort] = {}
    for place, cohort in enumerate(cohorts):
        found[frozenset([place])] = cohort
    by_value: dict[tuple[str, str], set[int]] = {}
    for place, cohort in enumerate(cohorts):
        for pair in cohort:
            by_value.setdefault(pair, set()).add(place)
    if len(cohorts) > 1:
        found[frozenset(range(len(cohorts)))] = ()
    for pair in sorted(by_value):
        found.setdefault(frozenset(by_value[pair]), (pair,))
    members = np.zeros((len(found), len(cohorts)))
    for row, places in enumerate(found):
        members[row, list(places)] = 1.0
    return Groups(tuple(found.values()), members, tuple(len(places) == 1 for places in found))


def comparable(one: Cohort, other: Cohort) -> bool:
    """Tell whether a cohort holds the other, or is held by it."""
    return set(one) <= set(other) or set(other) <= set(one)
