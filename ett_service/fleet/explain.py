"""Why ETT% differs between two windows, and which jobs weigh most in each part of the answer."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection

from ett_service.core.fleet.decomposition import ChangePart, decompose_by, in_units
from ett_service.core.fleet.measures import PLAIN, WEIGHTED, Names
from ett_service.core.fleet.totals import Totals
from ett_service.core.words import Category, Owner, Period, Word
from ett_service.fleet.scope import Scope, Window
from ett_service.storage.fleet import rollups
from ett_service.storage.fleet.job_sums import JobWeight, heaviest
from ett_service.storage.fleet.rollups import JOBS

Weighting = Literal["accelerators", "wall"]

_NAMES: Mapping[Weighting, Names] = {"accelerators": WEIGHTED, "wall": PLAIN}

GroupKey: TypeAlias = tuple[str, ...]
"""The values of the scope's dimensions, and whether it is ``other``."""

_Fleet: TypeAlias = Mapping[GroupKey, Totals]


Split = Literal["category", "owner"]

_WORDS: Mapping[Split, tuple[Word, ...]] = {
    "category": tuple(Category),
    "owner": (Category.EFFECTIVE_TRAINING, *Owner, Period.TRAINING, Period.ENDING),
}
"""Partitions of time. That by owner has ``training`` without effective training."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared, how a second is weighted, and by what the change is split."""

    scope: Scope
    base: Window
    current: Window
    weighting: Weighting = "accelerators"
    split: Split = "category"

    @property
    def words(self) -> tuple[Word, ...]:
        """What time is partitioned by."""
        return _WORDS[self.split]

    def measures(self, words: Iterable[Word]) -> tuple[str, ...]:
        """Name the sums of these words' time."""
        return tuple(_measure(_NAMES[self.weighting], word) for word in words)

    def times(self, totals: Totals) -> dict[Word, int]:
        """Return the time by word."""
        times = {word: totals[self.measures([word])[0]] for word in self.words}
        if Period.TRAINING in times:
            times[Period.TRAINING] -= times[Category.EFFECTIVE_TRAINING]
        return times

    def jobs_by(self, word: Word | None) -> tuple[str, ...]:
        """Name the sums by which jobs are ranked in a part; of ``training`` what was wasted."""
        if word is Period.TRAINING:
            return (_NAMES[self.weighting].wasted,)
        return self.measures(Category if word is None else [word])


def _measure(names: Names, word: Word) -> str:
    match word:
        case Owner():
            return names.owners[word]
        case Period():
            return names.periods[word]
        case _:
            return names.categories[Category(word)]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two windows."""

    window: Window
    units: int  #: its ETT% in ``decomposition.UNITS``
    us: int  #: all its time, weighted as asked
    jobs: int


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of the change, as answers show it."""

    group: Mapping[str, str]
    other: bool
    word: Word | None  #: of the partition; None for mix
    units: int  #: of the change
    base: float  #: mix: the cohort's weight; within: the word's share of its time
    current: float
    jobs: tuple[JobWeight, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The change and its parts, the largest first; units sum to that of ``current - base``."""

    base: Side
    current: Side
    mix_units: int
    within_units: Mapping[Word, int]  #: over all cohorts
    causes: tuple[Cause, ...]
    rest: int  #: how many parts are not among the causes
    rest_units: int  #: what those sum to


def explain(
    conn: Connection, comparison: Comparison, *, most_parts: int = 20, most_jobs: int = 3
) -> Explanation:
    """Split the change from the base window to the current one by cohort and word."""
    base, current = (
        _totals(conn, comparison, window) for window in (comparison.base, comparison.current)
    )
    split = decompose_by(
        comparison.words,
        {group: comparison.times(totals) for group, totals in base.items()},
        {group: comparison.times(totals) for group, totals in current.items()},
    )
    rounded = in_units(split)
    ranked = sorted(zip(split.parts, rounded.parts, strict=True), key=_largest_first)
    within: Counter[Word] = Counter()
    for part, units in ranked:
        if part.word is not None:
            within[part.word] += units
    return Explanation(
        base=_side(comparison, comparison.base, rounded.base, base),
        current=_side(comparison, comparison.current, rounded.current, current),
        mix_units=sum(units for part, units in ranked if part.word is None),
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
        measures=comparison.measures(comparison.words),
        tallies=False,
    )
    return {group: by_place[None, group] for _, group in sorted(by_place, key=_group)}


def _group(place: rollups.RollupPlace) -> GroupKey:
    return place[1]


def _side(comparison: Comparison, window: Window, units: int, fleet: _Fleet) -> Side:
    us = sum(sum(comparison.times(totals).values()) for totals in fleet.values())
    return Side(window, units, us, sum(totals[JOBS] for totals in fleet.values()))


def _largest_first(ranked: tuple[ChangePart[GroupKey, Word], int]) -> tuple[int, GroupKey, str]:
    part, units = ranked
    return (-abs(units), part.cohort, part.word or "")


def _cause(
    conn: Connection,
    comparison: Comparison,
    part: ChangePart[GroupKey, Word],
    units: int,
    most_jobs: int,
) -> Cause:
    *values, other = part.cohort
    group = dict(zip(comparison.scope.group_by, values, strict=True))
    jobs: list[JobWeight] = []
    if most_jobs and not other:  # what a job adds keeps its own cohort, and is never of `other`
        measures = comparison.jobs_by(part.word)
        windows = (comparison.base, comparison.current)
        jobs = heaviest(conn, comparison.scope.cohorts, group, windows, measures, most_jobs)
    return Cause(
        group, bool(other), part.word, units, float(part.base), float(part.current), tuple(jobs)
    )
