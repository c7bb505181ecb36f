"""All that was observed of a project over a stretch of time, ready to be looked at as of any day.

Reading it costs most; so a replay reads once, and cuts a ``Sample`` out for each of its days.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ett_service.core.interval import DAY_US, HOUR_US
from ett_service.core.regression import Cohort, Subject
from ett_service.core.vocabulary import Category
from ett_service.detection.sample import (
    Durations,
    Floats,
    Ints,
    Rates,
    Sample,
    Shares,
    SmallInts,
)


@dataclass(frozen=True, slots=True)
class Attempts:
    """What each attempt is, in columns; the others refer to its place."""

    cohort: SmallInts
    stratum: SmallInts
    unit: SmallInts  #: the place of its job in ``Observed.jobs``
    number: SmallInts
    gpus: Floats  #: NaN while unknown
    hardware: SmallInts  #: the place in ``Observed.hardware``


@dataclass(frozen=True, slots=True)
class Values:
    """What was known of attempts at instants: durations, or events of no length."""

    us: Ints
    known_us: Ints  #: in ascending order
    attempt: Ints

    def between(self, from_us: int, to_us: int) -> "Values":
        """Return those that became known in a span."""
        start, end = np.searchsorted(self.known_us, (from_us, to_us))
        return Values(self.us[start:end], self.known_us[start:end], self.attempt[start:end])


@dataclass(frozen=True, slots=True)
class Held:
    """Stretches of time in which attempts held their accelerators."""

    from_us: Ints
    to_us: Ints
    attempt: Ints


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of a project from ``days`` before an instant up to it."""

    to_us: int
    days: int
    cohorts: Sequence[Cohort]
    jobs: Sequence[str]
    hardware: Sequence[str]
    attempts: Attempts
    durations: Mapping[Subject, Values]
    failures: Mapping[Subject, Values]
    held: Held
    time_day: SmallInts  #: of the time below; its day
    time_cohort: SmallInts
    time: Mapping[str, Floats]  #: times accelerators, in microseconds by category
    left_out: frozenset[tuple[int, int]]  #: as in ``Sample``

    def sample(self, as_of_us: int, days: int) -> Sample:
        """Return what was over at an instant, whole days before the end, and what was before it.

        Raises ``ValueError`` where the instant lies elsewhere.
        """
        later, part = divmod(self.to_us - as_of_us, DAY_US)
        if part or later < 0:
            raise ValueError("as_of_us is to lie whole days before the end")
        days = min(days, self.days - later)
        first_us, first_day = as_of_us - days * DAY_US, self.days - later - days
        return Sample(
            as_of_us=as_of_us,
            days=days,
            cohorts=self.cohorts,
            durations={
                subject: self._durations(values.between(first_us, as_of_us), first_us)
                for subject, values in self.durations.items()
            },
            rates=dict(self._rates(first_us, days)),
            shares=self._shares(first_day, days),
            left_out=frozenset(
                (day - first_day, cohort)
                for day, cohort in self.left_out
                if first_day <= day < first_day + days
            ),
        )

    def gpu_hours(self, from_us: int, days: int) -> Floats:
        """Return the accelerators' hours that were held, by cohort, day and hardware."""
        shape = (len(self.cohorts), days, len(self.hardware))
        attempt, day, hours = _by_day(self.held, self.attempts.gpus, from_us, days)
        places = np.ravel_multi_index(
            (self.attempts.cohort[attempt], day, self.attempts.hardware[attempt]), shape
        )
        summed = np.zeros(shape)
        np.add.at(summed.reshape(-1), places, hours)
        return summed

    def _durations(self, values: Values, first_us: int) -> Durations:
        return Durations(
            us=values.us,
            day=_days(values.known_us, first_us),
            cohort=self.attempts.cohort[values.attempt],
            stratum=self.attempts.stratum[values.attempt],
            unit=self.attempts.unit[values.attempt],
            gpus=self.attempts.gpus[values.attempt],
        )

    def _rates(self, first_us: int, days: int) -> Iterator[tuple[Subject, Rates]]:
        hours = self.gpu_hours(first_us, days).sum(axis=2)
        cohort, day = np.nonzero(hours)
        for subject, values in self.failures.items():
            seen = values.between(first_us, first_us + days * DAY_US)
            counted = np.zeros(hours.shape, dtype=np.int64)
            np.add.at(
                counted, (self.attempts.cohort[seen.attempt], _days(seen.known_us, first_us)), 1
            )
            yield (
                subject,
                Rates(
                    events=counted[cohort, day],
                    exposure=hours[cohort, day],
                    day=day.astype(np.int32),
                    cohort=cohort.astype(np.int32),
                ),
            )

    def _shares(self, first_day: int, days: int) -> Shares:
        inside = (self.time_day >= first_day) & (self.time_day < first_day + days)
        return Shares(
            day=(self.time_day[inside] - first_day).astype(np.int32),
            cohort=self.time_cohort[inside],
            by_category={category.value: self.time[category][inside] for category in Category},
        )


def _days(known_us: Ints, first_us: int) -> SmallInts:
    return ((known_us - first_us) // DAY_US).astype(np.int32)


def _by_day(held: Held, gpus: Floats, first_us: int, days: int) -> tuple[Ints, Ints, Floats]:
    """Cut what was held at the days' bounds: places of attempts, days and accelerators' hours."""
    start = np.maximum(held.from_us, first_us)
    end = np.minimum(held.to_us, first_us + days * DAY_US)
    inside = (end > start) & np.isfinite(gpus[held.attempt])
    start, end, attempt = start[inside], end[inside], held.attempt[inside]
    first, last = (start - first_us) // DAY_US, (end - 1 - first_us) // DAY_US
    pieces = last - first + 1
    each = np.repeat(np.arange(len(start)), pieces)
    day = first[each] + np.arange(len(each)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    low = np.maximum(start[each], first_us + day * DAY_US)
    high = np.minimum(end[each], first_us + (day + 1) * DAY_US)
    return attempt[each], day, (high - low) / HOUR_US * gpus[attempt[each]]
