"""What changed when something was done to the fleet: markers, with what was before and after.

A marker comes with two stretches of time, each ``reach`` long at most and cut where a marker of
the same kind and labels lies; they may differ in ``code_version``, which separates one deploy from
the next. What began in them is compared. That the difference is associated with the marker is all
that can be said: other things change at the same time.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, pairwise

import numpy as np
from sqlalchemy import Connection

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.events import MarkerKind
from ett_service.core.fleet.totals import ratio
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.fleet.begun import Begun
from ett_service.fleet.scope import Scope, Window
from ett_service.fleet.uncertainty import (
    Floats,
    Integers,
    Interval,
    Resampling,
    interval,
)
from ett_service.storage.fleet.occurrences import Kind, occurrences
from ett_service.storage.fleet.sample import MOST_READ, Sample, count_alive, jobs_alive
from ett_service.storage.record.markers import KeptMarker

REACH_US = 14 * DAY_US
"""How far before and after a marker to look by default."""

STEPS = (MarkerKind.DEPLOY, MarkerKind.LAUNCH)
"""Kinds of markers that are meant to make a lasting difference."""

_JOBS_DRAWN = 1_500
"""How many jobs of a large fleet are read: a marker's sides have some hundreds each."""

_OF_THE_NEW = "code_version"


@dataclass(frozen=True, slots=True)
class MeasuredDurations:
    """Durations on one side of a marker; means and medians are None where there are none."""

    n: int
    jobs: int
    mean_us: float | None
    median_us: float | None


@dataclass(frozen=True, slots=True)
class Effect:
    """One duration before and after; differences are after minus before."""

    kind: Kind
    before: MeasuredDurations
    after: MeasuredDurations
    mean_us: float | None  #: the difference of the means; None where a side has nothing
    mean_us_interval: Interval | None  #: None with fewer than two jobs on a side
    median_us: float | None  #: the difference of the medians
    median_us_interval: Interval | None  #: None, too, with very many durations on a side


@dataclass(frozen=True, slots=True)
class EttEffect:
    """ETT% before and after, by accelerators; of hours that lie on one side as a whole."""

    before_us: tuple[int, int]  #: effective, all
    after_us: tuple[int, int]
    ratio_interval: Interval | None  #: of the difference

    @property
    def ratio(self) -> float | None:
        """After minus before; None where a side has no time."""
        if not (self.before_us[1] and self.after_us[1]):
            return None
        return ratio(*self.after_us) - ratio(*self.before_us)


@dataclass(frozen=True, slots=True)
class Change:
    """A marker and what it is associated with."""

    marker: KeptMarker
    before: Window
    after: Window
    effects: tuple[Effect, ...]
    ett: EttEffect


def changes(
    conn: Connection,
    scope: Scope,
    marked: Sequence[KeptMarker],
    among: Sequence[KeptMarker],
    now_us: int,
    reach_us: int = REACH_US,
    *,
    sample: Sample | None = None,
) -> Iterator[Change]:
    """Return what each marker is associated with; *among* are all that may cut its time short.

    Labels of a marker that are dimensions narrow the jobs that are looked at, as its project
    does, but for the ``code_version``, which nothing had before; a marker of none of the scope's
    jobs is passed over. With a *sample* durations and intervals are of its jobs, ETT% is of all.
    """
    looked_at = []
    for change in marked:
        narrowed = _narrowed(scope, change)
        if narrowed is not None:
            looked_at.append((change, narrowed, sides(change, among, now_us, reach_us)))
    begun = Begun(conn, scope, [(narrowed, around) for _, narrowed, around in looked_at], sample)
    for change, narrowed, (before, after) in looked_at:
        yield Change(
            change,
            before,
            after,
            tuple(_effect(begun, narrowed, kind, before, after) for kind in Kind),
            _ett_effect(begun, narrowed, before, after),
        )


def drawn(
    conn: Connection, scope: Scope, windows: Iterable[tuple[int, int]], most: int = MOST_READ
) -> Sample | None:
    """Draw of the jobs that lived from the first of *windows* to the last; None reads all."""
    edges = [*chain.from_iterable(windows)]
    hull = (min(edges) // HOUR_US * HOUR_US, -(-max(edges) // HOUR_US) * HOUR_US)
    if hull[0] == hull[1] or count_alive(conn, scope.cohorts, hull) <= most:
        return None
    return jobs_alive(conn, scope.cohorts, hull, most, _JOBS_DRAWN)


def _narrowed(scope: Scope, change: KeptMarker) -> Scope | None:
    where = dict(scope.where)
    for name, value in change.marker.labels.items():
        if name in DIMENSIONS and name != _OF_THE_NEW:
            where[name] = where.get(name, frozenset({value})) & {value}
    owners = scope.where.get("project", frozenset({change.project}))
    if change.project not in owners or not all(where.values()):
        return None
    return replace(scope, project_ids=(change.project_id,), where=where)


def sides(
    change: KeptMarker, among: Iterable[KeptMarker], now_us: int, reach_us: int = REACH_US
) -> tuple[Window, Window]:
    """Return the time before and after a marker; a side may be empty.

    What lies inside a marker that has an end is on neither side.
    """
    start, end = change.marker.at, _end(change)
    low, high = start - reach_us, min(end + reach_us, max(end, now_us))
    for other in among:
        if _alike(other, change):
            if other.marker.at < start:
                low = max(low, min(_end(other), start))
            elif other.marker.at > start:
                high = min(high, max(other.marker.at, end))
    return Window(low, start), Window(end, high)


def _end(change: KeptMarker) -> int:
    return change.marker.at if change.marker.end is None else change.marker.end


def _alike(change: KeptMarker, other: KeptMarker) -> bool:
    return _what(change) == _what(other)


def _what(change: KeptMarker) -> tuple[object, ...]:
    labels = {name: value for name, value in change.marker.labels.items() if name != _OF_THE_NEW}
    return (change.project_id, change.marker.kind, labels)


def _by_unit(values: Integers, units: Integers) -> Floats:
    """Sum columns by unit: in floats, exact below 2^53, as they are estimated with."""
    sums = [np.bincount(units, weights=column) for column in values.T]
    return np.stack(sums, axis=1)


class _Sample:
    """Durations of one side."""

    def __init__(self, begun: tuple[Integers, Integers], stream: int) -> None:
        self._values, self._units = begun
        self._resampling = Resampling(2, stream)
        counted = np.stack((self._values, np.ones_like(self._values)), axis=1)
        self._resampling.add_all(_by_unit(counted, self._units))

    @property
    def measured(self) -> MeasuredDurations:
        n, jobs = len(self._values), self._resampling.units
        if not n:
            return MeasuredDurations(0, 0, None, None)
        mean_us = int(self._values.sum()) / n
        return MeasuredDurations(n, jobs, mean_us, float(np.median(self._values)))

    def means(self) -> Floats | None:
        """Return the mean of each draw."""
        draws = self._resampling.draws()
        return None if draws is None else draws[:, 0] / draws[:, 1]

    def medians(self) -> Floats | None:
        """Return the median of each draw."""
        return self._resampling.medians(self._values, self._units)


def _effect(begun: Begun, scope: Scope, kind: Kind, before: Window, after: Window) -> Effect:
    base, current = (
        _Sample(begun.durations(scope, kind, window), stream)
        for stream, window in enumerate((before, after))
    )
    was, became = base.measured, current.measured
    return Effect(
        kind,
        was,
        became,
        _less(became.mean_us, was.mean_us),
        _difference(base.means(), current.means()),
        _less(became.median_us, was.median_us),
        _difference(base.medians(), current.medians()),
    )


def _less(current: float | None, base: float | None) -> float | None:
    return None if current is None or base is None else current - base


def _difference(before: Floats | None, after: Floats | None) -> Interval | None:
    if before is None or after is None:
        return None
    return interval(after - before)


def _ett_effect(begun: Begun, scope: Scope, before: Window, after: Window) -> EttEffect:
    sums, draws = [], []
    for stream, window in enumerate((before, after)):
        times, jobs = begun.ett(scope, window)
        resampling = Resampling(2, stream)
        resampling.add_all(_by_unit(times, jobs))
        sums.append(begun.ett_sums(scope, window))
        ratios = _ratios(resampling.draws())
        if ratios is not None:  # those of a sample vary around its own ratio
            ratios += ratio(*sums[-1]) - ratio(*map(int, times.sum(axis=0)))
        draws.append(ratios)
    return EttEffect(sums[0], sums[1], _difference(draws[0], draws[1]))


def _ratios(draws: Floats | None) -> Floats | None:
    if draws is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Floats = draws[:, 0] / draws[:, 1]
        return ratios


@dataclass(frozen=True, slots=True)
class Step:
    """The mean time to start from one marker to the next, or to the end."""

    marker: KeptMarker | None  #: None for what lies before the first
    window: Window
    n: int
    mean_us: int | None  #: rounded; None where no job began
    step_us: int  #: by how much the level moved here; 0 where no job began


def waterfall(
    conn: Connection,
    scope: Scope,
    window: Window,
    marked: Sequence[KeptMarker],
    sample: Sample | None = None,
) -> list[Step]:
    """Follow the mean time to start through the window; the steps sum to its whole change.

    A stretch in which no job began keeps the level of the one before. Markers of one instant
    share a stretch, which is that of the last of them. With a *sample* only its jobs are read.
    """
    inside = {
        marker.marker.at: marker
        for marker in sorted(marked, key=lambda kept: (kept.marker.at, kept.marker.id))
        if window.from_us < marker.marker.at < window.to_us
    }
    edges = [window.from_us, *inside, window.to_us]
    counts, sums = Counter[int](), Counter[int]()
    only = None if sample is None else sample.keys
    for _, _, at, us in occurrences(conn, scope.cohorts, Kind.TIME_TO_START, window, only):
        place = bisect_right(edges, at) - 1
        counts[place] += 1
        sums[place] += us
    return list(_steps([None, *inside.values()], list(pairwise(edges)), counts, sums))


def _steps(
    marked: Sequence[KeptMarker | None],
    windows: Sequence[tuple[int, int]],
    counts: Mapping[int, int],
    sums: Mapping[int, int],
) -> Iterator[Step]:
    level: int | None = None
    for place, (marker, window) in enumerate(zip(marked, windows, strict=True)):
        n = counts.get(place, 0)
        mean = round(Fraction(sums[place], n)) if n else None
        step = 0 if mean is None or level is None else mean - level
        level = level if mean is None else mean
        yield Step(marker, Window(*window), n, mean, step)
