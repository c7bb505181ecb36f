"""Exclusions: the time of jobs and the days of maintenance that no search counts."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from sqlalchemy import Connection

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.dimensions import Cohort as Kind
from ett_service.core.events import MarkerKind
from ett_service.core.intervals import DAY_US, Interval, outside
from ett_service.core.ledger.results import Exclusion
from ett_service.core.ledger.spans import NEVER
from ett_service.detection.sample import Flags, Ints, SmallInts
from ett_service.storage.record.markers import MarkerFilter, markers

ALL_COHORTS = -1

_MOST_WINDOWS = 10_000


class ExcludedTime:
    """The excluded time of jobs, by their place."""

    def __init__(self, windows: Mapping[int, Sequence[Exclusion]]) -> None:
        self._windows = {
            unit: [
                (-NEVER if window.from_at is None else window.from_at,
                 NEVER if window.to_at is None else window.to_at)
                for window in of_job
            ]
            for unit, of_job in windows.items()
        }  # fmt: skip

    def counted(self, unit: SmallInts, at_us: Ints) -> Flags:
        """Mark the rows that count, each of a job at an instant."""
        counted = np.ones(len(unit), dtype=np.bool_)
        for job, windows in self._windows.items():
            for start, end in windows:
                counted &= (unit != job) | (at_us < start) | (at_us >= end)
        return counted

    def outside(self, unit: int, interval: Interval) -> Sequence[Interval]:
        """Return the parts of a job's interval that count."""
        windows = self._windows.get(unit)
        return (interval,) if windows is None else outside(interval, windows)


def maintenance_days(
    conn: Connection,
    project_id: int,
    first_us: int,
    days: int,
    cohorts_of: Mapping[Kind, frozenset[int]],
) -> Iterator[tuple[int, int]]:
    """Yield day and cohort (-1: all) of every day of maintenance.

    A marker without an end took no time. Its labels that are dimensions select the attempts that
    it concerns; without any it concerns all. *cohorts_of* gives the cohorts of each kind of
    attempt: a day is excluded from a cohort if the marker concerns some of its attempts.
    """
    wanted = MarkerFilter(
        from_us=first_us, to_us=first_us + days * DAY_US, kind=MarkerKind.MAINTENANCE
    )
    for stored in markers(conn, [project_id], wanted, limit=_MOST_WINDOWS):
        marker = stored.marker
        if marker.end is None or marker.end <= marker.at:
            continue
        labels = {name: value for name, value in marker.labels.items() if name in DIMENSIONS}
        concerned = sorted(_concerned(labels, cohorts_of))
        first = max(0, (marker.at - first_us) // DAY_US)
        last = min(days - 1, (marker.end - 1 - first_us) // DAY_US)
        for day in range(first, last + 1):
            yield from ((day, cohort) for cohort in concerned)


def _concerned(labels: Mapping[str, str], cohorts_of: Mapping[Kind, frozenset[int]]) -> set[int]:
    if not labels:
        return {ALL_COHORTS}
    return {
        cohort
        for kind, cohorts in cohorts_of.items()
        if all(getattr(kind, name) == value for name, value in labels.items())
        for cohort in cohorts
    }
