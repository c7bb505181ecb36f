"""The panel: the level of each group of cohorts on each day, and how sure it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ett_service.core.regressions.finding import Cohort
from ett_service.detection.sample import Flags, Floats, Ints


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


_PRIOR_SERIES = 2.0  #: the variance of days pooled over series counts as so many of their own
_LEAST_OTHERS = 0.1  #: part of the rows that others must have to be compared with
_TINY = 1e-12
_MOST_ALIKE = 0.6
_WEEK = 7


@dataclass(frozen=True, slots=True)
class Cells:
    """Cohorts by days; levels are 0 on average in the baseline, in units of a change of 1."""

    level: Floats  #: mean of what the rows say, 0 where there are none
    weight: Floats  #: what the rows tell
    effective: Floats  #: rows as many as tell as much, were each of a job of its own
    count: Ints  #: rows
    variance: Floats  #: of one row, by cohort
    baseline: int  #: so many of the first days are in no recent window
    weekday: Ints  #: of each day, 0 to 6 from any

    def shifted(self, members: Floats, start: int, stop: int) -> "Cells":
        """Take off each member's own change of these days, so that it explains no more."""
        days = np.arange(self.level.shape[1])
        late = (days >= start) & (days < stop)
        change = _mean(self, late) - _mean(self, ~late)
        return replace(self, level=self.level - np.outer(members * change, late))


@dataclass(frozen=True, slots=True)
class Panel:
    """Groups by days."""

    level: Floats
    precision: Floats  #: one over the variance of the level; 0 where there is none
    weather: Floats  #: what was taken off the level: of others, and of the day of the week
    count: Ints
    effective: Floats  #: rows as many as tell as much, were each of a job of its own
    freedom: Floats  #: by group, degrees of freedom of its variance


def centred(cells: Cells) -> Cells:
    """Make the mean of each cohort's first ``baseline`` days 0; without any, it weighs nothing."""
    early = np.arange(cells.level.shape[1]) < cells.baseline
    mean = _mean(cells, early)
    known = (cells.weight * early).sum(axis=1) > 0
    return replace(cells, level=cells.level - mean[:, None], weight=cells.weight * known[:, None])


def panel(cells: Cells, groups: Groups) -> Panel:
    """Pool *cells* by group, and take off the weather that others show."""
    pooled = cells.weight * _harmony(cells)[:, None]
    own = _Pooled.of(groups.members, pooled, cells)
    everywhere = _Pooled.of(np.ones((1, len(pooled))), pooled, cells)
    weather = _weather(own, everywhere, cells.baseline)
    weather = weather + _weekdays(own.level - weather, own, cells)
    level = np.where(own.weight > 0, own.level - weather, 0.0)
    days, freedom = _of_days(level, own, cells.baseline, np.array(groups.single))
    variance = own.variance + days[:, None]
    precision = np.divide(1.0, variance, out=np.zeros_like(level), where=own.weight > 0)
    precision = precision * _of_neighbours(level[:, : cells.baseline], precision)
    count = np.rint(groups.members @ cells.count).astype(np.int64)
    return Panel(level, precision, weather, count, groups.members @ cells.effective, freedom)


@dataclass(frozen=True, slots=True)
class _Pooled:
    """Sums over the cohorts of each group, by day."""

    weight: Floats
    total: Floats
    square: Floats  #: sum of the squared weights times variances

    @classmethod
    def of(cls, members: Floats, pooled: Floats, cells: Cells) -> "_Pooled":
        noise = np.divide(pooled**2, cells.weight, out=np.zeros_like(pooled), where=pooled > 0)
        return cls(
            members @ pooled,
            members @ (pooled * cells.level),
            members @ (noise * cells.variance[:, None]),
        )

    @property
    def level(self) -> Floats:
        return _ratio(self.total, self.weight)

    @property
    def variance(self) -> Floats:
        """Of the level, by the spread of rows alone."""
        return _ratio(self.square, self.weight**2)


def _harmony(cells: Cells) -> Floats:
    """Return what a cohort weighs in van Elteren's sum: little where its baseline is small."""
    before = cells.weight[:, : cells.baseline].sum(axis=1)
    return _ratio(before, cells.weight.sum(axis=1))


def _weather(own: _Pooled, everywhere: _Pooled, baseline: int) -> Floats:
    """Predict each group's weather by the level of all cohorts outside it."""
    others = _Pooled(
        everywhere.weight - own.weight,
        everywhere.total - own.total,
        everywhere.square - own.square,
    )
    fleet = slice(0, baseline)
    above, known_by = _excess(everywhere.level[:, fleet], everywhere.variance[:, fleet])
    shared = max(0.0, float(_ratio(above, known_by)[0]))
    known = others.weight > everywhere.weight * _LEAST_OTHERS
    doubt = np.where(known, shared + others.variance, 1.0)
    drawn = np.divide(shared, doubt, out=np.zeros_like(doubt), where=doubt > 0)
    return np.where(known, others.level * drawn, 0.0)


def _weekdays(level: Floats, own: _Pooled, cells: Cells) -> Floats:
    """Return what the day of the week brings to a group, as far as its baseline shows it."""
    weeks = cells.baseline // _WEEK
    if weeks <= 1:
        return np.zeros_like(level)
    early = cells.weekday[:, None] == np.arange(_WEEK)
    early[cells.baseline :] = False
    there = (own.weight > 0).astype(np.float64)
    count = there @ early
    mean = _ratio((level * there) @ early, count)
    within = np.maximum(_ratio((level**2 * there) @ early, count) - mean**2, 0.0)
    error = within.mean(axis=1) / (weeks - 1)
    mean = mean - mean.mean(axis=1, keepdims=True)
    between = np.maximum((mean**2).sum(axis=1) / (_WEEK - 1) - error, 0.0)
    drawn = _ratio(between, between + error)
    return np.asarray((mean * drawn[:, None])[:, cells.weekday])


def _of_days(level: Floats, own: _Pooled, baseline: int, single: Flags) -> tuple[Floats, Floats]:
    """Return the variance that days add to each group's level, and its degrees of freedom.

    It is no less than what groups of the same kind have together: too small a variance is what
    false alarms are made of.
    """
    above, known = _excess(level[:, :baseline], own.variance[:, :baseline])
    found, freedom = np.zeros(len(level)), np.full(len(level), float(max(baseline - 1, 1)))
    for kind in (single, ~single):
        if kind.any():
            pooled = max(0.0, float(above[kind].sum()) / max(float(known[kind].sum()), _TINY))
            mixed = (_ratio(above, known) + _PRIOR_SERIES * pooled) / (1 + _PRIOR_SERIES)
            found = np.where(kind, np.maximum(mixed, pooled), found)
    freedom[single] *= min(int(single.sum()), 1 + _PRIOR_SERIES)
    return found, freedom


def _of_neighbours(level: Floats, precision: Floats) -> float:
    """Return what a day tells beside one that is independent of the days around it.

    Levels that wander are as good as fewer days (Bartlett 1946, with the correlation of the first
    order, over all groups).
    """
    seen = level * np.sqrt(precision[:, : level.shape[1]])
    square = float((seen**2).sum())
    if not square:
        return 1.0
    alike = min(max(float((seen[:, 1:] * seen[:, :-1]).sum()) / square, 0.0), _MOST_ALIKE)
    return (1 - alike) / (1 + alike)


def _excess(level: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the parts whose ratio is the variance between days (DerSimonian and Laird 1986)."""
    sure = np.divide(1.0, variance, out=np.zeros_like(level), where=variance > 0)
    whole = sure.sum(axis=1)
    mean = _ratio((sure * level).sum(axis=1), whole)
    spread = (sure * (level - mean[:, None]) ** 2).sum(axis=1)
    above = spread - np.maximum((sure > 0).sum(axis=1) - 1, 0)
    return above, whole - _ratio((sure**2).sum(axis=1), whole)


def _mean(cells: Cells, days: Flags) -> Floats:
    weight = cells.weight * days
    return _ratio((weight * cells.level).sum(axis=1), weight.sum(axis=1))


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
