"""What is no part of the search: time that people excluded, and days of maintenance."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from sqlalchemy import Connection

from ett_service.core.answer import Exclusion
from ett_service.core.cohort import DIMENSIONS, Cohort
from ett_service.core.interval import DAY_US, Interval, outside
from ett_service.core.marker import Marker, MarkerKind
from ett_service.core.span import NEVER
from ett_service.detection.sample import Ints, SmallInts
from ett_service.storage.markers import MarkerFilter, markers

_MOST_WINDOWS = 10_000
_EVERYTHING = -1


class Excluded:
    """Jobs with exclusions, by their place."""

    def __init__(self, windows: Mapping[int, Sequence[Exclusion]]) -> None:
        self._windows = {
            unit: [
                (-NEVER if one.from_at is None else one.from_at,
                 NEVER if one.to_at is None else one.to_at)
                for one in of_job
            ]
            for unit, of_job in windows.items()
        }  # fmt: skip

    def counts(self, unit: SmallInts, at_us: Ints) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """Tell which rows stay, each of a job at an instant."""
        stays = np.ones(len(unit), dtype=np.bool_)
        for one, windows in self._windows.items():
            for start, end in windows:
                stays &= (unit != one) | (at_us < start) | (at_us >= end)
        return stays

    def left_of(self, unit: int, stretch: Interval) -> Sequence[Interval]:
        """Return what of a job's time stays."""
        windows = self._windows.get(unit)
        return (stretch,) if windows is None else outside(stretch, windows)


def maintained(
    conn: Connection, project_id: int, first_us: int, days: int
) -> Iterator[tuple[int, int, Mapping[str, str]]]:
    """Yield first and last day of each maintenance, and whom it concerns by dimension.

    A marker without an end took no time. Its labels that are dimensions say whom it concerns;
    nobody in particular without any.
    """
    to_us = first_us + days * DAY_US
    wanted = MarkerFilter(from_us=first_us, to_us=to_us, kind=MarkerKind.MAINTENANCE)
    for kept in markers(conn, [project_id], wanted, limit=_MOST_WINDOWS):
        marker: Marker = kept.marker
        if marker.end is not None and marker.end > marker.at:
            where = {name: one for name, one in marker.labels.items() if name in DIMENSIONS}
            first = max(0, (marker.at - first_us) // DAY_US)
            yield first, min(days - 1, (marker.end - 1 - first_us) // DAY_US), where


def days_left_out(
    maintenance: Iterator[tuple[int, int, Mapping[str, str]]],
    kinds: Mapping[Cohort, frozenset[int]],
) -> Iterator[tuple[int, int]]:
    """Yield day and cohort, -1 for all, of every day on which a cohort's machines were worked at.

    *kinds* tells in which of the cohorts that are looked at the attempts of a kind are. A day is
    left out of a cohort as soon as some of its attempts are concerned.
    """
    for first, last, where in maintenance:
        concerned = {_EVERYTHING}
        if where:
            concerned = {
                cohort
                for kind, cohorts in kinds.items()
                if all(getattr(kind, name) == value for name, value in where.items())
                for cohort in cohorts
            }
        for day in range(first, last + 1):
            yield from ((day, cohort) for cohort in sorted(concerned))
