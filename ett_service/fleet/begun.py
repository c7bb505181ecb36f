"""What began around markers: durations and the time of jobs, read once for all who look at it.

Where jobs are many they are read of a sample of them, which has every kind of what they began.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from sqlalchemy import Connection

from ett_service.core.fleet.measures import WEIGHTED
from ett_service.core.fleet.totals import Totals
from ett_service.core.intervals import DAY_US, HOUR_US, merged
from ett_service.fleet.scope import Scope, Window
from ett_service.fleet.uncertainty import Flags, Integers
from ett_service.storage.fleet import hours, rollups
from ett_service.storage.fleet.occurrences import Kind, cohort_ids, hourly_ett, occurrences
from ett_service.storage.fleet.rollups import CohortFilter, Span
from ett_service.storage.fleet.sample import Sample
from ett_service.storage.schema.record import EVERY_HOUR

_AT_ONCE = 4_096  #: rows that are taken apart together
_MOST_HOURS = 1 << 24  #: since 1970, of nearly two millennia
_MEASURES = tuple(WEIGHTED.categories.values())


class _Timeline:
    """What began when, by job: an instant and one value or several a row."""

    def __init__(self, rows: Iterator[tuple[Any, ...]], columns: int) -> None:
        self.jobs: list[tuple[int, str]] = []
        read = [array("q") for _ in range(1 + columns)]
        # By column: a loop over rows took a fifth of the question's time.
        while batch := list(islice(rows, _AT_ONCE)):
            project_ids, names, *numbers = zip(*batch, strict=True)
            self.jobs += zip(project_ids, names, strict=True)
            for column, values in zip(read, numbers, strict=True):
                column.extend(values)
        at, *amounts = (np.frombuffer(column, np.int64) for column in read)
        self._at, self.values = at, np.stack(amounts, axis=1)

    def number(self, place_of: Mapping[tuple[int, str], int]) -> None:
        """Keep of each row's job its place only."""
        self._jobs = np.fromiter(map(place_of.__getitem__, self.jobs), np.int64, len(self.jobs))
        self.jobs = []

    def hours(self) -> Integers:
        """Return the job and the hour of each row, in one number."""
        hours: Integers = self._jobs * _MOST_HOURS + self._at // HOUR_US
        return hours

    def within(self, window: tuple[int, int], is_wanted: Flags | None) -> tuple[Integers, Integers]:
        """Return the values of a window, and of each its job, numbered from 0 in their order."""
        inside = (window[0] <= self._at) & (self._at < window[1])
        if is_wanted is not None:
            inside &= is_wanted
        _, units = np.unique(self._jobs[inside], return_inverse=True)
        return self.values[inside], units


class Begun:
    """What began around markers, read once, however many of them look at it.

    Where they look at several sets of cohorts, that of the scope is read, of which each is a part:
    what began is in a cohort if its job has time there in the hour. With a *sample* only its jobs
    are read; sums of time are those of the rollups then, and where the rollups' hours are gone,
    the full hours of a window are the hours of its full days.
    """

    def __init__(
        self,
        conn: Connection,
        scope: Scope,
        around: Sequence[tuple[Scope, tuple[Window, Window]]],
        sample: Sample | None,
    ) -> None:
        only = None if sample is None else sample.keys
        asked = list(dict.fromkeys(narrowed.cohorts for narrowed, _ in around))
        self._whole = asked[0] if len(asked) == 1 else scope.cohorts
        windows = [window for _, sides in around for window in sides]
        self._kinds = {
            kind: _Timeline(
                chain.from_iterable(
                    occurrences(conn, self._whole, kind, window, only) for window in merged(windows)
                ),
                1,
            )
            for kind in Kind
        }
        spans = merged(map(_hours_of, windows))
        rows = (hourly_ett(conn, self._whole, window, only) for window in spans)
        self._hours = _Timeline(chain.from_iterable(rows), 3)
        self._horizon_us = hours.kept_from(conn) if sample else EVERY_HOUR
        self._sums = {
            cohorts: [_sums(conn, cohorts, window, self._horizon_us) for window in spans]
            for cohorts in (asked if sample else ())
        }
        timelines = (self._hours, *self._kinds.values())
        jobs = sorted({job for timeline in timelines for job in timeline.jobs})
        place_of = {job: place for place, job in enumerate(jobs)}
        for timeline in timelines:
            timeline.number(place_of)
        self._in_parts = {
            cohorts: np.isin(self._hours.values[:, 0], cohort_ids(conn, cohorts))
            for cohorts in asked
            if cohorts != self._whole
        }
        in_hour, at = self._hours.hours(), {kind: of.hours() for kind, of in self._kinds.items()}
        self._begun_in = {
            (cohorts, kind): np.isin(at[kind], np.unique(in_hour[in_part]))
            for cohorts, in_part in self._in_parts.items()
            for kind in Kind
        }

    def durations(self, scope: Scope, kind: Kind, window: Window) -> tuple[Integers, Integers]:
        """Return what began in the window, and the job of each."""
        is_wanted = self._begun_in.get((scope.cohorts, kind))
        values, jobs = self._kinds[kind].within(window, is_wanted)
        return values[:, 0], jobs

    def ett(self, scope: Scope, window: Window) -> tuple[Integers, Integers]:
        """Return effective time, and all, in the full hours of a window, and the job of each."""
        in_part = self._in_parts.get(scope.cohorts)
        values, jobs = self._hours.within(self._full_hours(window), in_part)
        return values[:, 1:], jobs

    def ett_sums(self, scope: Scope, window: Window) -> tuple[int, int]:
        """Return effective time, and all, of every job in the full hours of a window."""
        if scope.cohorts not in self._sums:
            times, _ = self.ett(scope, window)
            effective_us, us = map(int, times.sum(axis=0))
            return effective_us, us
        from_us, to_us = self._full_hours(window)
        inside = [
            totals
            for by_start in self._sums[scope.cohorts]
            for start_us, totals in by_start.items()
            if from_us <= start_us < to_us
        ]
        return (
            sum(totals.effective_weighted_us for totals in inside),
            sum(totals.weighted_us for totals in inside),
        )

    def _full_hours(self, window: Window) -> Span:
        full = -(-window.from_us // HOUR_US) * HOUR_US, window.to_us // HOUR_US * HOUR_US
        return hours.narrowed(full, self._horizon_us)


def _sums(
    conn: Connection, cohorts: CohortFilter, span: Span, horizon_us: int
) -> dict[int, Totals]:
    """Sum each full day before the horizon, and each hour after it."""
    start_us, end_us = span
    days = hours.narrowed((start_us, min(end_us, horizon_us)), horizon_us)
    by_start: dict[int, Totals] = {}
    for (first_us, last_us), step in (
        (days, DAY_US),
        ((max(start_us, horizon_us), end_us), HOUR_US),
    ):
        if first_us < last_us:
            by_place = rollups.totals(
                conn, cohorts, (first_us, last_us), step=step, measures=_MEASURES, tallies=False
            )
            by_start |= {
                at_us: totals for (at_us, _), totals in by_place.items() if at_us is not None
            }
    return by_start


def _hours_of(window: Window) -> tuple[int, int]:
    """Return the hours of which the window has some."""
    return window.from_us // HOUR_US * HOUR_US, -(-window.to_us // HOUR_US) * HOUR_US
