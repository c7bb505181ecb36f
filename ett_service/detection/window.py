"""The window of one run: its days, groups of cohorts, and how far neighbouring days hang together.

Some days do not count. Of those that do, the level of a group is its rows' own noise and the
conditions of the day. The conditions are taken for an autoregressive process of the first order
(Box and Jenkins 1970): neighbouring days have a covariance, which decays with their distance. So
days in a row say less than as many that are independent, and the less the longer they are.

Six weeks of one subject say little of that. How like its neighbours a day is, is therefore
estimated of all subjects together, and a subject's own estimate counts as far as they differ
(DerSimonian and Laird 1986).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Metric, SeriesCohort, Subject
from ett_service.detection.cells import shrunk
from ett_service.detection.sample import Durations, Flags, Floats, Ints, Memory, Options, Sample

WEEK_DAYS = 7

_MOST_DECAY, _USUAL_DECAY = 0.85, 0.6
_PRIOR_DECAY = 0.3  #: of a standard error: how much the usual decay counts
_MOST_LAG = 14  #: days over which conditions are followed
_LAGS = 3  #: of which covariances are estimated
_SIZES = (1.0, 4.0)  #: values a day that part small, middle and large cohorts
_KINDS = len(_SIZES) + 2  #: of groups: single cohorts by their size, and all others
_ROUNDS = 3
_TINY = 1e-12

Kinds = NDArray[np.intp]


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


class DayMemory(NamedTuple):
    """How the levels of neighbouring days hang together, by group."""

    covariance: Floats  #: of neighbouring days
    decay: Floats  #: the factor on it for each further day

    def independence(self, precision: Floats) -> Floats:
        """Return the part of days of this *precision* that are worth independent ones, by group."""
        return np.asarray(1 / (1 + self.of_mean(precision) * precision.sum(axis=1)))

    def of_mean(self, precision: Floats) -> Floats:
        """Return what neighbouring days add to the variance of the mean of each group.

        Days weigh by their *precision*, groups by days.
        """
        whole = np.maximum(precision.sum(axis=1, keepdims=True), _TINY)
        return self.variance((precision / whole)[:, None, :])[:, 0]

    def variance(self, weights: Floats) -> Floats:
        """Return what neighbouring days add to the variance of weighted sums of levels.

        *weights* are groups by sums by days.
        """
        if not self.covariance.any():
            return np.zeros(weights.shape[:2])
        return self.added(_neighbouring(weights))

    def added(self, products: Floats) -> Floats:
        """Return the same of *products* of neighbouring weights: lags from 1 by groups by sums."""
        part = 2 * self.covariance * self.decay ** np.arange(len(products))[:, None]
        return np.asarray(np.einsum("lg,lgs->gs", part, products))


def _neighbouring(weights: Floats) -> Floats:
    """Return sums of products of weights some days apart: lags from 1 by groups by sums."""
    lags = range(1, min(_MOST_LAG, weights.shape[2] - 1) + 1)
    products = np.zeros((len(lags), *weights.shape[:2]))
    for lag in lags:
        np.einsum("gsd,gsd->gs", weights[:, :, :-lag], weights[:, :, lag:], out=products[lag - 1])
    return products


class Evidence(NamedTuple):
    """How like their neighbours the days of one subject are; kinds of groups by lags from 1.

    How much of a day is noise of its own depends on the size of a cohort, and so does this.
    """

    correlation: Floats
    pairs: Floats  #: of days; one over the variance of each correlation


class UsualMemory(NamedTuple):
    """The same of all subjects together."""

    correlation: Floats
    between: Floats  #: by kind, the variance from one subject to the next


def usual_memory(evidence: Iterable[Evidence]) -> UsualMemory | None:
    """Pool the evidence of several subjects; None without any."""
    of_subjects = list(evidence)
    if not of_subjects:
        return None
    correlation, pairs = (np.stack(part) for part in zip(*of_subjects, strict=True))
    whole = np.maximum(pairs.sum(axis=0), _TINY)
    mean = (correlation * pairs).sum(axis=0) / whole
    spread = (pairs * (correlation - mean) ** 2).sum(axis=0) - (len(of_subjects) - 1)
    between = np.maximum(spread, 0.0) / np.maximum(whole - (pairs**2).sum(axis=0) / whole, _TINY)
    return UsualMemory(mean, between[:, 0])


def kinds(values: Floats, single: Flags) -> Kinds:
    """Return the kind of each group, whose memory is shrunk to that of its kind.

    *values* are those of a day of its baseline; *single* tells groups of one cohort.
    """
    return np.where(single, np.searchsorted(_SIZES, values, side="right"), _KINDS - 1)


class GroupMemory(NamedTuple):
    """The memory of groups, and what it says of other subjects."""

    memory: DayMemory
    evidence: Evidence


def day_memory(
    level: Floats, precision: Floats, kind: Kinds, usual: UsualMemory | None = None
) -> GroupMemory:
    """Estimate the memory of days from *level* and its *precision*, groups by days.

    The covariance of a series is that of all series of its kind, or more where it differs from
    theirs by more than chance: too small a covariance makes false alarms. The decay is that of the
    kind. Fitting a mean takes a part of what days share away, which is given back. What is *usual*
    counts beside a subject's own.
    """
    memory = DayMemory(*np.zeros((2, len(level))))
    evidence = Evidence(*np.zeros((2, _KINDS, _LAGS)))
    if level.shape[1] < 2 * _MOST_LAG:
        return GroupMemory(memory, evidence)
    moments = _Moments.of(level, precision)
    products = _neighbouring(moments.weights[:, None, :])
    for _ in range(_ROUNDS):
        lost = moments.of_mean + memory.added(products)[:, 0]
        covariance, decay = np.zeros((2, len(level)))
        for place in range(_KINDS):
            same = kind == place
            if same.any():
                of_kind = moments.of_kind(lost, same)
                evidence.correlation[place], evidence.pairs[place] = of_kind.evidence
                common = of_kind.beside(usual, place)
                covariance = np.where(same, moments.shrunk(lost, same, common), covariance)
                decay = np.where(same, of_kind.decay(common), decay)
        memory = DayMemory(covariance, decay)
    return GroupMemory(memory, evidence)


@dataclass(frozen=True, slots=True)
class _KindMoments:
    """The covariance that all series of a kind share, by lag."""

    covariance: Floats
    sure: Floats  #: information in each
    pairs: Floats

    @property
    def _unit(self) -> Floats:
        """What makes a covariance a correlation."""
        return np.sqrt(self.sure / np.maximum(self.pairs, 1.0))

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.covariance * self._unit, self.pairs)

    def beside(self, usual: UsualMemory | None, place: int) -> Floats:
        """Return the covariances shrunk to what is usual, by how much subjects differ."""
        if usual is None:
            return self.covariance
        error = 1 / np.maximum(self.pairs[0], 1.0)
        own = usual.between[place] / (usual.between[place] + error)
        expected = usual.correlation[place] / np.maximum(self._unit, _TINY)
        return np.asarray(own * self.covariance + (1 - own) * expected)

    def decay(self, covariance: Floats) -> float:
        """Return the factor on the covariance for each further day."""
        second, third = np.maximum(covariance[1:], 0.0)
        prior = _PRIOR_DECAY / np.sqrt(max(float(self.sure[0]), _TINY))
        near = max(float(covariance[0]) + second, 0.0)
        decay = (max(float(covariance[1]) + third, 0.0) + _USUAL_DECAY * prior) / (near + prior)
        return min(float(decay), _MOST_DECAY)


@dataclass(frozen=True, slots=True)
class _Moments:
    """Products of levels some days apart, weighed by their precision."""

    products: Floats  #: mean product of each series; lags from 1 by series
    sure: Floats  #: information in each
    pairs: Floats  #: of days with values
    weights: Floats  #: of each day in the mean of its series
    of_mean: Floats  #: variance of that mean, were days independent

    @classmethod
    def of(cls, level: Floats, precision: Floats) -> "_Moments":
        whole = np.maximum(precision.sum(axis=1), _TINY)
        weights = precision / whole[:, None]
        scaled = precision * (level - (weights * level).sum(axis=1)[:, None])
        products, sure, pairs = np.zeros((3, _LAGS, len(level)))
        for place, lag in enumerate(range(1, _LAGS + 1)):
            information = (precision[:, lag:] * precision[:, :-lag]).sum(axis=1)
            product = (scaled[:, lag:] * scaled[:, :-lag]).sum(axis=1)
            products[place] = product / np.maximum(information, _TINY)
            sure[place] = information
            pairs[place] = ((precision[:, lag:] > 0) & (precision[:, :-lag] > 0)).sum(axis=1)
        return cls(products, sure, pairs, weights, 1 / whole)

    def of_kind(self, lost: Floats, kind: Flags) -> _KindMoments:
        """Sum the series of a kind up; *lost* is what fitting their means took."""
        sure = (self.sure * kind).sum(axis=1)
        total = ((self.products + lost) * self.sure * kind).sum(axis=1)
        return _KindMoments(total / np.maximum(sure, _TINY), sure, (self.pairs * kind).sum(axis=1))

    def shrunk(self, lost: Floats, kind: Flags, common: Floats) -> Floats:
        """Return the covariance of neighbours by series, shrunk to the *common* one."""
        first = float(common[0])
        own = shrunk(self.products[0] + lost, self.sure[0] * kind, first)
        return np.asarray(np.maximum(own, max(first, 0.0)))
