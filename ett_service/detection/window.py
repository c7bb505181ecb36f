"""The window of one run: its days, of which some do not count, and groups of cohorts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, SeriesCohort, Subject
from ett_service.detection.sample import Durations, Flags, Floats, Ints, Memory, Options, Sample

WEEK_DAYS = 7


@dataclass(frozen=True, slots=True)
class Groups:
    """Sets of cohorts; each set is there once, under the first of its names."""

    names: tuple[SeriesCohort, ...]
    members: Floats  #: groups by cohorts, 1 where the cohort is in the group
    single: tuple[bool, ...]  #: whether the group is one cohort

    def place(self, name: SeriesCohort) -> int | None:
        """Return the place of a group, by its name."""
        return self.names.index(name) if name in self.names else None

    def by_dimension(self) -> Iterator[Floats]:
        """Yield, for each dimension, the values that several cohorts have: values by cohorts."""
        rows: dict[str, list[int]] = {}
        for row in np.flatnonzero(~np.array(self.single)).tolist():
            for dimension, _ in self.names[row]:
                rows.setdefault(dimension, []).append(row)
        yield from (self.members[places] for places in rows.values())


def groups(cohorts: Sequence[SeriesCohort]) -> Groups:
    """Return all groups of *cohorts*, the single ones first, in their order."""
    names: dict[frozenset[int], SeriesCohort] = {}
    by_value: dict[tuple[str, str], set[int]] = {}
    for place, cohort in enumerate(cohorts):
        names[frozenset([place])] = cohort
        for pair in cohort:
            by_value.setdefault(pair, set()).add(place)
    if len(cohorts) > 1:
        names[frozenset(range(len(cohorts)))] = ()
    for pair in sorted(by_value):
        names.setdefault(frozenset(by_value[pair]), (pair,))
    members = np.zeros((len(names), len(cohorts)))
    for row, places in enumerate(names):
        members[row, list(places)] = 1.0
    return Groups(tuple(names.values()), members, tuple(len(places) == 1 for places in names))


def within(cohorts: Iterable[SeriesCohort], whole: SeriesCohort) -> Flags:
    """Mark the *cohorts* that are part of another."""
    labels = set(whole)
    return np.array([labels <= set(cohort) for cohort in cohorts], dtype=np.bool_)


@dataclass(frozen=True)
class Window:
    """Days of a sample, in order: a baseline, then those on which a change may have begun."""

    sample: Sample
    of_sample: Ints  #: the days, as the sample counts them
    baseline: int  #: the number of days of the baseline, which come first
    counts: Flags  #: cohorts by all days of the sample; False for days of maintenance
    held_us_per_week: float  #: accelerators times time, of the whole project

    @classmethod
    def of(cls, sample: Sample, options: Options) -> "Window":
        """Take as many days of *sample* as *options* ask for and there are."""
        days = min(sample.days, options.baseline_days + options.recent_days)
        counts = np.ones((len(sample.cohorts), sample.days), dtype=np.bool_)
        for day, cohort in sample.excluded_days:
            if 0 <= day < sample.days:
                counts[slice(None) if cohort < 0 else cohort, day] = False
        of_sample = np.arange(sample.days - days, sample.days)
        held_us = _held_us(sample, sample.days - days) * WEEK_DAYS / max(days, 1)
        return cls(sample, of_sample, max(days - options.recent_days, 0), counts, held_us)

    def beside(self, baseline: Ints, recent: Ints) -> "Window":
        """Return a window of other days of the sample."""
        both = np.concatenate([baseline, recent])
        return replace(self, of_sample=both, baseline=len(baseline))

    @property
    def days(self) -> int:
        """The number of days."""
        return len(self.of_sample)

    @property
    def weekday(self) -> Ints:
        """The day of the week of each day, 0 to 6 from any."""
        return self.of_sample % WEEK_DAYS

    @cached_property
    def place(self) -> Ints:
        """The place of each day of the sample in the window; -1 for one outside."""
        places = np.full(self.sample.days, -1)
        places[self.of_sample] = np.arange(self.days)
        return places

    def rows_in(self, day: "np.ndarray[tuple[int], np.dtype[np.int32]]") -> Ints:
        """Return the places of the rows whose *day* of the sample is in the window."""
        rows = np.flatnonzero((day >= 0) & (day < self.sample.days))
        return rows[self.place[day[rows]] >= 0]

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
        """Return cohorts by days of the window: 1 where values count, else 0.

        Days of maintenance do not, nor days before an accepted change, nor those of incidents.
        """
        counted = self.counts[:, self.of_sample].astype(np.float64)
        for series, since_us in memory.accepted.items():
            place = groups.place(series.cohort) if series.subject == subject else None
            if place is not None:
                early = self.of_sample < self.day_of(since_us)
                counted[np.ix_(groups.members[place] > 0, early)] = 0.0
        for series, spans in memory.incidents.items():
            place = groups.place(series.cohort) if series.subject == subject else None
            if place is not None:
                days = self._days_of(spans)
                days[self.baseline :] = False
                counted[np.ix_(groups.members[place] > 0, days)] = 0.0
        return counted

    def outages(self, groups: Groups, memory: Memory) -> Flags:
        """Return cohorts by days of the window: the days of outages that are known."""
        out = np.zeros((groups.members.shape[1], self.days), dtype=np.bool_)
        for cohort, spans in memory.outages.items():
            place = groups.place(cohort)
            if place is not None:
                out[np.ix_(groups.members[place] > 0, self._days_of(spans))] = True
        return out

    def _days_of(self, spans: Iterable[tuple[int, int]]) -> Flags:
        days = np.zeros(self.days, dtype=np.bool_)
        for from_us, to_us in spans:
            first, last = self.day_of(from_us), self.day_of(to_us - 1)
            days |= (self.of_sample >= first) & (self.of_sample <= last)
        return days


def accelerators(rows: Durations) -> Floats:
    """Return the accelerators of each row; where unknown the mean of the known, or 1."""
    unknown = np.isnan(rows.gpus)
    if not unknown.any():
        return rows.gpus
    mean = 1.0 if unknown.all() else float(rows.gpus[~unknown].mean())
    return np.where(unknown, mean, rows.gpus)


def _held_us(sample: Sample, first: int) -> float:
    """Return the time held since day *first*: all of it, or without shares that of the phases."""
    if sample.shares is not None:
        late = sample.shares.day >= first
        return float(sum(held[late].sum() for held in sample.shares.by_category.values()))
    return sum(
        float((rows.us * accelerators(rows))[rows.day >= first].sum())
        for subject, rows in sample.durations.items()
        if subject.metric is Metric.PHASE_SECONDS
    )


def bounded_logarithms(us: Ints) -> Floats:
    """Return natural logarithms of microseconds, of 0.1 s at least."""
    return np.log(np.maximum(us, 100_000))
