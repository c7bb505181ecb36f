"""The days that one run looks at, and which of them count for whom."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ett_service.core.interval import DAY_US
from ett_service.core.regression import Metric, Subject
from ett_service.detection.margins import Groups
from ett_service.detection.options import Memory, Options
from ett_service.detection.panel import Flags
from ett_service.detection.sample import Durations, Floats, Ints, Sample

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
