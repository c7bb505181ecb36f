"""Why ETT% differs between two windows, and which jobs weigh most in each part of the answer."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection

from ett_service.core.fleet.decomposition import ChangePart, decompose, in_units
from ett_service.core.fleet.measures import PLAIN, WEIGHTED, Names
from ett_service.core.fleet.totals import Totals
from ett_service.core.words import Category
from ett_service.fleet.scope import Scope, Window
from ett_service.storage.fleet import rollups
from ett_service.storage.fleet.job_sums import JobWeight, heaviest
from ett_service.storage.fleet.rollups import JOBS

Weighting = Literal["accelerators", "wall"]

_NAMES: Mapping[Weighting, Names] = {"accelerators": WEIGHTED, "wall": PLAIN}

Group: TypeAlias = tuple[str, ...]
"""The values of the scope's dimensions, and whether it is ``other``."""

_Fleet: TypeAlias = Mapping[Group, Totals]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared, and how a second is weighted."""

    scope: Scope
    base: Window
    current: Window
    weighting: Weighting = "accelerators"

    def measures(self, categories: Iterable[Category]) -> tuple[str, ...]:
        """Name the sums of these categories' time."""
        return tuple(_NAMES[self.weighting].categories[category] for category in categories)

    def times(self, totals: Totals) -> dict[Category, int]:
        """Return the time by category."""
        return {category: totals[self.measures([category])[0]] for category in Category}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two windows."""

    window: Window
    units: int  #: its ETT% in ``decomposition.UNITS``
    us: int  #: all its time, weighted as asked
    jobs: int


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of the change, as it is told."""

    group: Mapping[str, str]
    other: bool
    category: Category | None  #: None for mix
    units: int  #: of the change
    base: float  #: mix: the cohort's weight; within: the category's share of its time
    current: float
    jobs: tuple[JobWeight, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The change and its parts, the largest first; units sum to that of ``current - base``."""

    base: Side
    current: Side
    mix_units: int
    within_units: Mapping[Category, int]  #: over all cohorts
    causes: tuple[Cause, ...]
    rest: int  #: how many parts are not among the causes
    rest_units: int  #: what those sum to


def explain(
    conn: Connection, comparison: Comparison, *, most_parts: int = 20, most_jobs: int = 3
) -> Explanation:
    """Split the change from the base window to the current one by cohort and category."""
    base, current = (
        _totals(conn, comparison, window) for window in (comparison.base, comparison.current)
    )
    split = decompose(
        {group: comparison.times(totals) for group, totals in base.items()},
        {group: comparison.times(totals) for group, totals in current.items()},
    )
    rounded = in_units(split)
    ranked = sorted(zip(split.parts, rounded.parts, strict=True), key=_largest_first)
    within: Counter[Category] = Counter()
    for part, units in ranked:
        if part.category is not None:
            within[part.category] += units
    return Explanation(
        base=_side(comparison, comparison.base, rounded.base, base),
        current=_side(comparison, comparison.current, rounded.current, current),
        mix_units=sum(units for part, units in ranked if part.category is None),
        within_units=within,
        causes=tuple(_cause(conn, comparison, *cause, most_jobs) for cause in ranked[:most_parts]),
        rest=len(ranked[most_parts:]),
        rest_units=sum(units for _, units in ranked[most_parts:]),
    )


def _totals(conn: Connection, comparison: Comparison, window: Window) -> _Fleet:
    by_place = rollups.totals(
        conn,
        comparison.scope.cohorts,
        window,
        (*comparison.scope.group_by, "other"),
        measures=comparison.measures(Category),
        tallies=False,
    )
    return {group: by_place[None, group] for _, group in sorted(by_place, key=_group)}


def _group(place: rollups.Place) -> Group:
    return place[1]


def _side(comparison: Comparison, window: Window, units: int, fleet: _Fleet) -> Side:
    us = sum(sum(comparison.times(totals).values()) for totals in fleet.values())
    return Side(window, units, us, sum(totals[JOBS] for totals in fleet.values()))


def _largest_first(ranked: tuple[ChangePart[Group], int]) -> tuple[int, Group, str]:
    part, units = ranked
    return (-abs(units), part.cohort, part.category or "")


def _cause(
    conn: Connection, comparison: Comparison, part: ChangePart[Group], units: int, most_jobs: int
) -> Cause:
    *values, other = part.cohort
    group = dict(zip(comparison.scope.group_by, values, strict=True))
    jobs: list[JobWeight] = []
    if most_jobs and not other:  # what a job adds keeps its own cohort, and is never of `other`
        measures = comparison.measures(Category if part.category is None else [part.category])
        windows = (comparison.base, comparison.current)
        jobs = heaviest(conn, comparison.scope.cohorts, group, windows, measures, most_jobs)
    return Cause(
        group, bool(other), part.category, units, float(part.base), float(part.current), tuple(jobs)
    )
