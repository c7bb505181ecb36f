"""What a search for regressions is given: a sample of values, its options, and its memory.

The sample is made of observed values of attempts, each with when it became known, as of any day.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Metric, Series, SeriesCohort, Subject, Verdict
from ett_service.core.words import Category
from ett_service.fleet.economy import Economy

ETT = Subject(Metric.ETT_RATIO)

Ints: TypeAlias = NDArray[np.int64]
SmallInts: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations of one subject, one a row.

    ``cohort`` are places in ``Sample.cohorts``. Rows of one ``stratum`` agree in what is known
    before they begin (hardware, size, kind, first start or restart; of steps the setting, which is
    accelerators and tokens a step): only those are compared.
    """

    us: Ints  #: what is compared
    day: SmallInts  #: 24 hours each, from ``Sample.first_day_us``; by when the value was known
    cohort: SmallInts
    stratum: SmallInts
    unit: SmallInts  #: the job: values of one are not independent
    gpus: Floats  #: accelerators held meanwhile; NaN while unknown
    spent_us: Ints  #: ``us``, or the time of all steps of which it is the mean

    def chosen(self, rows: "slice | Ints | NDArray[np.intp]") -> "Durations":
        """Return some of the rows."""
        return Durations(*(getattr(self, column.name)[rows] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class Rates:
    """Events of one subject and their exposure, one row a cohort, day and size of attempts."""

    events: Ints
    exposure: Floats  #: GPU-hours
    day: SmallInts
    cohort: SmallInts
    gpus: Floats  #: accelerators of each attempt


@dataclass(frozen=True, slots=True)
class Shares:
    """Time by cohort and day, of which ETT% is made: microseconds times accelerators."""

    day: SmallInts
    cohort: SmallInts
    by_category: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of one run; days are blocks of 24 hours that end with ``as_of_us``."""

    as_of_us: int
    days: int
    cohorts: Sequence[SeriesCohort]
    durations: Mapping[Subject, Durations]
    rates: Mapping[Subject, Rates]
    shares: Shares | None = None
    excluded_days: frozenset[tuple[int, int]] = frozenset()
    """Days of maintenance: pairs of a day and the place of a cohort (-1: all)."""

    @property
    def first_day_us(self) -> int:
        """When the first of its days begins."""
        return self.as_of_us - self.days * DAY_US

    @property
    def subjects(self) -> list[Subject]:
        """The subjects of which there are values, in order."""
        subjects = {*self.durations, *self.rates}
        if self.shares is not None and len(self.shares.day):
            subjects.add(ETT)
        return sorted(subjects)


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts in columns; other columns refer to their places."""

    cohort: SmallInts
    stratum: SmallInts
    unit: SmallInts  #: the place of its job in ``Observed.jobs``
    number: SmallInts
    gpus: Floats  #: NaN while unknown
    hardware: SmallInts  #: the place in ``Observed.hardware``


@dataclass(frozen=True, slots=True)
class AttemptValues:
    """Values of attempts, and when each became known: durations, or events of no length."""

    us: Ints
    known_us: Ints  #: in ascending order
    attempt: Ints
    stratum: SmallInts  #: as of ``Durations``
    spent_us: Ints  #: likewise

    def between(self, from_us: int, to_us: int) -> "AttemptValues":
        """Return those that became known in a span."""
        return self.chosen(slice(*np.searchsorted(self.known_us, (from_us, to_us))))

    def chosen(self, rows: "slice | Flags | NDArray[np.intp]") -> "AttemptValues":
        """Return some of them, in their order."""
        return AttemptValues(*(getattr(self, column.name)[rows] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class Held:
    """Intervals in which attempts held their accelerators."""

    from_us: Ints
    to_us: Ints
    attempt: Ints


@dataclass(frozen=True, slots=True)
class Observed:
    """The observations of a project in the ``days`` before an instant."""

    to_us: int
    days: int
    cohorts: Sequence[SeriesCohort]
    jobs: Sequence[str]
    hardware: Sequence[str]
    attempts: Attempts
    durations: Mapping[Subject, AttemptValues]
    failures: Mapping[Subject, AttemptValues]
    held: Held
    time_day: SmallInts  #: the day of each row of ``time``
    time_cohort: SmallInts
    time: Mapping[str, Floats]  #: times accelerators, in microseconds by category
    excluded_days: frozenset[tuple[int, int]]  #: as in ``Sample``

    def sample(self, as_of_us: int, days: int) -> Sample:
        """Return what was over at an instant, which lies whole days before the end.

        Raises ``ValueError`` where it lies elsewhere.
        """
        later, part = divmod(self.to_us - as_of_us, DAY_US)
        if part or later < 0:
            raise ValueError("as_of_us must lie whole days before the end")
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
            excluded_days=frozenset(
                (day - first_day, cohort)
                for day, cohort in self.excluded_days
                if first_day <= day < first_day + days
            ),
        )

    def gpu_hours(self, from_us: int, days: int) -> Floats:
        """Return the GPU-hours held, by cohort, day and hardware."""
        shape = (len(self.cohorts), days, len(self.hardware))
        attempt, day, hours = _by_day(self.held, self.attempts.gpus, from_us, days)
        places = np.ravel_multi_index(
            (self.attempts.cohort[attempt], day, self.attempts.hardware[attempt]), shape
        )
        summed = np.zeros(shape)
        np.add.at(summed.reshape(-1), places, hours)
        return summed

    def _durations(self, values: AttemptValues, first_us: int) -> Durations:
        return Durations(
            us=values.us,
            day=_days(values.known_us, first_us),
            cohort=self.attempts.cohort[values.attempt],
            stratum=values.stratum,
            unit=self.attempts.unit[values.attempt],
            gpus=self.attempts.gpus[values.attempt],
            spent_us=values.spent_us,
        )

    def _rates(self, first_us: int, days: int) -> Iterator[tuple[Subject, Rates]]:
        sizes, size = np.unique(self.attempts.gpus, return_inverse=True)
        shape = (len(self.cohorts), days, len(sizes))
        attempt, day, hours = _by_day(self.held, self.attempts.gpus, first_us, days)

        def places(attempt: Ints, day: Ints | SmallInts) -> Ints:
            return np.ravel_multi_index((self.attempts.cohort[attempt], day, size[attempt]), shape)

        held = places(attempt, day)
        for subject, values in self.failures.items():
            recent = values.between(first_us, first_us + days * DAY_US)
            failed = places(recent.attempt, _days(recent.known_us, first_us))
            failed = failed[np.isin(failed // len(sizes), held // len(sizes))]
            rows, row = np.unique(np.concatenate([held, failed]), return_inverse=True)
            cohort, on_day, of_size = np.unravel_index(rows, shape)
            yield (
                subject,
                Rates(
                    events=np.bincount(row[len(held) :], minlength=len(rows)).astype(np.int64),
                    exposure=np.bincount(row[: len(held)], hours, len(rows)).astype(np.float64),
                    day=on_day.astype(np.int32),
                    cohort=cohort.astype(np.int32),
                    gpus=sizes[of_size],
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
    """Cut held time at the ends of days: places of attempts, days and GPU-hours."""
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


@dataclass(frozen=True, slots=True)
class Options:
    """Windows in days, and the floors of a finding."""

    recent_days: int = 14
    baseline_days: int = 42
    fewest_recent: int = 5
    fewest_baseline: int = 16
    effect_floor: float = 1.15  #: a change by a smaller factor is none
    impact_floor: float = 0.0025  #: share of the GPU-hours of the whole project
    q: float = 0.05  #: expected share of false findings among all
    tuned: Mapping[Metric, float] = field(default_factory=dict)
    """Factors of what the smallest change of a metric exceeds 1 by, from people's verdicts."""


@dataclass(frozen=True, slots=True)
class FrozenBaseline:
    """The baseline of a finding that fires, which it keeps, or of one that is pending."""

    from_us: int
    to_us: int
    onset_us: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Memory:
    """What earlier runs found and people accepted."""

    open: Mapping[Series, FrozenBaseline] = field(default_factory=dict)
    noise: frozenset[Series] = frozenset()  #: open ones that explain nothing, as people said
    small: Mapping[Series, FrozenBaseline] = field(default_factory=dict)
    """Those that fire and cost too little to alert: followed, too, and no reason for others."""
    pending: Mapping[Series, FrozenBaseline] = field(default_factory=dict)
    accepted: Mapping[Series, int] = field(default_factory=dict)
    """Since when, in microseconds, values may be part of a series' baseline."""
    incidents: Mapping[Series, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Spans of incidents in microseconds; they are no part of a baseline."""
    outages: Mapping[SeriesCohort, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Spans of short incidents of phases and failures: other subjects were not as usual, either."""

    @property
    def followed(self) -> Mapping[Series, FrozenBaseline]:
        """What fires, of which each run reports whether it still holds."""
        return {**self.small, **self.open}

    @property
    def explaining(self) -> Mapping[Series, FrozenBaseline]:
        """The open ones that explain others: what people called noise is none of them."""
        return {series: frozen for series, frozen in self.open.items() if series not in self.noise}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a search tells apart, its options, and the prices of accelerators.

    *cohort* and *strata* are names of ``core.dimensions.DIMENSIONS``. First starts and restarts
    are always told apart.
    """

    cohort: tuple[str, ...] = ("cluster", "model")
    strata: tuple[str, ...] = ("hardware", "kind", "size")
    options: Options = field(default_factory=Options)
    economy: Economy = field(default_factory=Economy)

    def tuned(self, factors: Mapping[Metric, float]) -> "Plan":
        """Return the plan with other smallest changes; see ``Options.tuned``."""
        return replace(self, options=replace(self.options, tuned=dict(factors)))
