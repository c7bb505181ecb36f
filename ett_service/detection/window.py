"""The days that one run looks at, without exclusions and maintenance."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sqlalchemy import Connection

from ett_service.core.dimensions import DIMENSIONS, Cohort
from ett_service.core.events import Marker, MarkerKind
from ett_service.core.intervals import DAY_US, Interval, outside
from ett_service.core.ledger.results import Exclusion
from ett_service.core.ledger.spans import NEVER
from ett_service.core.regressions.finding import Metric, Subject
from ett_service.detection.options import Memory, Options
from ett_service.detection.panel import Flags, Groups
from ett_service.detection.sample import Durations, Floats, Ints, Sample, SmallInts
from ett_service.storage.record.markers import MarkerFilter, markers

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


_WEEK = 7


@dataclass(frozen=True)
class Window:
    """Days of a sample, in order: a baseline, then those that a change may have begun on."""

    sample: Sample
    of_sample: Ints  #: the days, as the sample counts them
    baseline: int  #: so many of the first days are in no recent window
    kept: Flags  #: cohorts by all days of the sample; False where maintenance lay
    held_us_per_week: float  #: accelerators times time, of the whole project

    @classmethod
    def of(cls, sample: Sample, options: Options) -> "Window":
        """Take as many days of *sample* as *options* ask for and there are."""
        days = min(sample.days, options.baseline_days + options.recent_days)
        kept = np.ones((len(sample.cohorts), sample.days), dtype=np.bool_)
        for day, cohort in sample.left_out:
            if 0 <= day < sample.days:
                kept[slice(None) if cohort < 0 else cohort, day] = False
        of_sample = np.arange(sample.days - days, sample.days)
        held = _held(sample, sample.days - days) * _WEEK / max(days, 1)
        return cls(sample, of_sample, max(days - options.recent_days, 0), kept, held)

    def beside(self, baseline: Ints, recent: Ints) -> "Window":
        """Return a window of other days of the sample."""
        both = np.concatenate([baseline, recent])
        return replace(self, of_sample=both, baseline=len(baseline))

    @property
    def days(self) -> int:
        """How many there are."""
        return len(self.of_sample)

    @cached_property
    def place(self) -> Ints:
        """Where each day of the sample stands; -1 for one that is not in the window."""
        found = np.full(self.sample.days, -1)
        found[self.of_sample] = np.arange(self.days)
        return found

    def at_us(self, day: int) -> int:
        """Return when one of its days begins; of the one after the last, when that ends."""
        if not self.days:
            return self.sample.as_of_us
        last = min(day, self.days - 1)
        return self.sample.first_day_us + (int(self.of_sample[last]) + day - last) * DAY_US

    def end_us(self, day: int) -> int:
        """Return when a day of the sample ends."""
        return self.sample.first_day_us + (day + 1) * DAY_US

    def day_of(self, at_us: int) -> int:
        """Return the day of the sample that an instant lies in; it may be before the first."""
        return (at_us - self.sample.first_day_us) // DAY_US

    def counted(self, subject: Subject, groups: Groups, memory: Memory) -> Floats:
        """Return cohorts by days, 1 where values count and 0 where somebody said they do not."""
        kept = self.kept[:, self.of_sample].astype(np.float64)
        for series, since_us in memory.accepted.items():
            place = groups.place(series.cohort) if series.subject == subject else None
            if place is not None:
                early = self.of_sample < self.day_of(since_us)
                kept[np.ix_(groups.members[place] > 0, early)] = 0.0
        for series, stretches in memory.incidents.items():
            place = groups.place(series.cohort) if series.subject == subject else None
            if place is not None:
                kept[np.ix_(groups.members[place] > 0, self._within(stretches))] = 0.0
        return kept

    def _within(self, stretches: Iterable[tuple[int, int]]) -> Flags:
        """Mark the days of the baseline that any of *stretches* touches."""
        found = np.zeros(self.days, dtype=np.bool_)
        for from_us, to_us in stretches:
            first, last = self.day_of(from_us), self.day_of(to_us - 1)
            found |= (self.of_sample >= first) & (self.of_sample <= last)
        found[self.baseline :] = False
        return found


def accelerators(rows: Durations) -> Floats:
    """Return those that each row held; where unknown the mean of the known, or 1."""
    unknown = np.isnan(rows.gpus)
    if not unknown.any():
        return rows.gpus
    mean = 1.0 if unknown.all() else float(rows.gpus[~unknown].mean())
    return np.where(unknown, mean, rows.gpus)


def _held(sample: Sample, first: int) -> float:
    """Return what the project held since day *first*: all its time, or else that of its phases."""
    if sample.shares is not None:
        late = sample.shares.day >= first
        return float(sum(held[late].sum() for held in sample.shares.by_category.values()))
    return sum(
        float((rows.us * accelerators(rows))[rows.day >= first].sum())
        for subject, rows in sample.durations.items()
        if subject.metric is Metric.PHASE_SECONDS
    )
