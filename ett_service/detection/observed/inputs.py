"""The observations of a project, read from the store: completed values and time, by cohort.

A duration belongs to the instant at which it was over, by the clocks of its events: a search as of
an instant sees only what was over by then. Times of receipt do not matter, so late events count at
their own place. Exclusions, verdicts and markers are taken as they stand now.
"""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain
from typing import Any

import numpy as np
from sqlalchemy import Connection

from ett_service.core.dimensions import DIMENSIONS, Cohort
from ett_service.core.events import Exclusion, MarkerKind
from ett_service.core.fleet.owned_time import MOST_ACCELERATORS
from ett_service.core.intervals import DAY_US, HOUR_US, Interval, outside
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.regressions.finding import Metric, SeriesCohort, Subject
from ett_service.core.words import OTHER, Category, Phase
from ett_service.detection.observed.completed import Completed, completed, failures, misses
from ett_service.detection.sample import (
    Attempts,
    AttemptValues,
    Flags,
    Held,
    Ints,
    Observed,
    Plan,
    SmallInts,
)
from ett_service.storage.record.markers import MarkerFilter, markers
from ett_service.storage.regressions import observations
from ett_service.storage.regressions.cohort_facts import DailyTime, daily_time
from ett_service.storage.regressions.observations import (
    ObservedAttempt,
    ObservedJob,
    cohort_of,
)

MOST_COHORTS = 1_000
"""Cohorts that are searched one by one, those with most attempts; the others are one cohort."""

MOST_STAGES = 40
"""Stages are words of users: only this many, those of most attempts, are searched."""

_ALL_COHORTS = -1
_COUNTS = frozenset({Metric.FAILURES_PER_GPU_HOUR, Metric.CACHE_MISS_RATIO})
_COMPILE = Phase.PT2_COMPILE.value
_WITHIN_STATE = frozenset({Metric.PHASE_SECONDS, Metric.STAGE_SECONDS})
"""Metrics of compiles that are compared within one state of their cache."""

_MOST_WINDOWS = 10_000


def observe(conn: Connection, project_id: int, to_us: int, days: int, plan: Plan) -> Observed:
    """Read the observations of a project in the *days* before an instant.

    Sums of time are by full hours: where the instant is on none, they end up to an hour before.
    """
    span = (to_us - days * DAY_US, to_us)
    named = {*plan.cohort, *plan.strata}
    jobs = dict(observations.jobs(conn, project_id, span, named))
    attempts = [
        attempt for attempt in observations.attempts(conn, project_id, span) if attempt.job in jobs
    ]
    first_hour_us = span[0] // HOUR_US * HOUR_US
    time = list(daily_time(conn, project_id, first_hour_us, days, plan.cohort))
    columns = _Columns(plan, jobs, attempts, time)
    excluded = ExcludedTime(
        {
            columns.units[job]: windows
            for job, windows in observations.exclusions(conn, project_id).items()
            if job in columns.units
        }
    )
    durations = completed(conn, project_id, span, jobs, attempts)
    return Observed(
        to_us=to_us,
        days=days,
        cohorts=columns.cohorts,
        jobs=columns.jobs,
        hardware=columns.hardware,
        attempts=columns.attempts,
        durations=dict(_values(chain(durations, misses(attempts)), columns, excluded, span)),
        failures=dict(_values(failures(attempts), columns, excluded, span)),
        held=columns.held(attempts, excluded),
        time_day=np.array([row.day for row in time], dtype=np.int32),
        time_cohort=columns.time_cohorts(time),
        time={
            category: np.array([row.us[place] for row in time], dtype=np.float64)
            for place, category in enumerate(Category)
        },
        excluded_days=frozenset(
            maintenance_days(conn, project_id, span[0], days, columns.cohorts_of)
        ),
    )


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


class _Columns:
    """Words as places: the cohort, stratum, job and hardware of each attempt."""

    def __init__(
        self,
        plan: Plan,
        jobs: Mapping[str, ObservedJob],
        attempts: Sequence[ObservedAttempt],
        time: Iterable[DailyTime],
    ) -> None:
        self._other = (OTHER,) * len(plan.cohort)
        kinds = [cohort_of(jobs[attempt.job], attempt) for attempt in attempts]
        cohorts = _of_dimensions(kinds, plan.cohort)
        counts = sorted(Counter(cohorts).items(), key=_largest_first)
        largest = {cohort for cohort, _ in counts[:MOST_COHORTS]}
        cohorts = [cohort if cohort in largest else self._other for cohort in cohorts]
        of_time = {
            self._other if row.other or row.labels not in largest else row.labels for row in time
        }
        self._places = _places({*cohorts, *of_time})
        self.cohorts: list[SeriesCohort] = [
            tuple(zip(plan.cohort, cohort, strict=True)) for cohort in self._places
        ]
        starts = [jobs[attempt.job].start_of(attempt.number) for attempt in attempts]
        like = _of_dimensions(kinds, plan.strata)
        strata = list(zip(like, starts, strict=True))
        places_of_strata = _places(set(strata))
        self._strata = [places_of_strata[stratum] for stratum in strata]
        of_compiles = list(
            zip(strata, (attempt.compile_cache for attempt in attempts), strict=True)
        )
        places_of_compiles = _places(set(of_compiles))
        self._strata_of_compiles = [places_of_compiles[stratum] for stratum in of_compiles]
        self._setups = list(zip(like, (attempt.gpus for attempt in attempts), strict=True))
        self._settings: dict[tuple[Hashable, int | None], int] = {}
        self.jobs = sorted(jobs)
        self.units = _places(self.jobs)
        self.hardware = sorted({kind.hardware for kind in kinds})
        self.cohorts_of = _cohorts_of(kinds, [self._places[cohort] for cohort in cohorts])
        self.attempts = Attempts(
            cohort=_column(cohorts, self._places),
            stratum=np.array(self._strata, dtype=np.int32),
            unit=_column([attempt.job for attempt in attempts], self.units),
            number=np.array([attempt.number for attempt in attempts], dtype=np.int32),
            gpus=np.array([_gpus(attempt.gpus) for attempt in attempts], dtype=np.float64),
            hardware=_column([kind.hardware for kind in kinds], _places(self.hardware)),
        )

    def of_value(self, value: Completed) -> tuple[int, int]:
        """Return the stratum of a value, and the time that was spent on what it is the mean of."""
        if value.of_steps is None:
            compiles = value.subject.phase == _COMPILE and value.subject.metric in _WITHIN_STATE
            strata = self._strata_of_compiles if compiles else self._strata
            return strata[value.attempt], value.us if value.spent_us is None else value.spent_us
        setting = (self._setups[value.attempt], value.of_steps.tokens_a_step)
        return self._settings.setdefault(setting, len(self._settings)), value.of_steps.us

    def held(self, attempts: Sequence[ObservedAttempt], excluded: ExcludedTime) -> Held:
        """Return when accelerators were held: from the end of scheduling, which comes first."""
        rows = array("q")
        for place, attempt in enumerate(attempts):
            held_from_us = attempt.started_us + attempt.categories_us.get(Category.SCHEDULING, 0)
            interval = (held_from_us, attempt.ended_us)
            for start, end in excluded.outside(self.units[attempt.job], interval):
                rows.extend((start, max(start, end), place))
        return Held(*_columns(rows, 3))

    def time_cohorts(self, time: Iterable[DailyTime]) -> SmallInts:
        """Return the place of each row's cohort."""
        other = self._places.get(self._other, 0)
        return np.array(
            [other if row.other else self._places.get(row.labels, other) for row in time],
            dtype=np.int32,
        )


def _of_dimensions(kinds: Iterable[Cohort], names: Sequence[str]) -> list[tuple[str, ...]]:
    places = [DIMENSIONS.index(name) for name in names]
    return [tuple([kind[place] for place in places]) for kind in kinds]  # type: ignore[misc]


def _cohorts_of(kinds: Sequence[Cohort], cohorts: Sequence[int]) -> Mapping[Cohort, frozenset[int]]:
    cohorts_of: defaultdict[Cohort, set[int]] = defaultdict(set)
    for kind, cohort in zip(kinds, cohorts, strict=True):
        cohorts_of[kind].add(cohort)
    return {kind: frozenset(places) for kind, places in cohorts_of.items()}


def _values(
    values: Iterable[Completed],
    columns: _Columns,
    excluded: ExcludedTime,
    span: tuple[int, int],
) -> Iterator[tuple[Subject, AttemptValues]]:
    """Lay values out in order of time, without the excluded ones."""
    rows: defaultdict[Subject, array[int]] = defaultdict(lambda: array("q"))
    for value in values:
        subject, us, known_us, attempt, *_ = value
        if span[0] <= known_us < span[1] and (us > 0 or subject.metric in _COUNTS):
            rows[subject].extend((us, known_us, attempt, *columns.of_value(value)))
    for subject in _searched(rows):
        lengths, known_at, places, strata, spent = _columns(rows[subject], 5)
        order = np.lexsort((lengths, places, known_at))
        order = order[excluded.counted(columns.attempts.unit[places[order]], known_at[order])]
        unordered = AttemptValues(lengths, known_at, places, strata.astype(np.int32), spent)
        yield subject, unordered.chosen(order)


def _searched(rows: Mapping[Subject, Sized]) -> list[Subject]:
    """Return all subjects but the rarest stages."""
    stages = [subject for subject in rows if subject.metric is Metric.STAGE_SECONDS]
    stages.sort(key=lambda stage: (-len(rows[stage]), stage))
    return sorted(rows.keys() - stages[MOST_STAGES:])


def _columns(rows: "array[int]", width: int) -> tuple[Ints, ...]:
    return tuple(np.frombuffer(rows, dtype=np.int64).reshape(-1, width).T)


def _places(words: Iterable[Any]) -> dict[Any, int]:
    return {word: place for place, word in enumerate(sorted(words))}


def _column(words: Iterable[Hashable], places: Mapping[Any, int]) -> SmallInts:
    return np.array([places[word] for word in words], dtype=np.int32)


def _gpus(gpus: int | None) -> float:
    """Return a number of accelerators that can be true; NaN for any other."""
    return float(gpus) if gpus and gpus <= MOST_ACCELERATORS else math.nan


def _largest_first(counted: tuple[tuple[str, ...], int]) -> tuple[int, tuple[str, ...]]:
    return -counted[1], counted[0]


def maintenance_days(
    conn: Connection,
    project_id: int,
    first_us: int,
    days: int,
    cohorts_of: Mapping[Cohort, frozenset[int]],
) -> Iterator[tuple[int, int]]:
    """Yield day and cohort (-1: all) of every day of maintenance.

    A marker without an end took no time. Its labels that are dimensions select the attempts that
    it concerns; without any it concerns all. *cohorts_of* gives the cohorts of each kind of
    attempt: a day is excluded from a cohort if the marker concerns some of its attempts.
    """
    marker_filter = MarkerFilter(
        from_us=first_us, to_us=first_us + days * DAY_US, kind=MarkerKind.MAINTENANCE
    )
    for stored in markers(conn, [project_id], marker_filter, limit=_MOST_WINDOWS):
        marker = stored.marker
        if marker.end is None or marker.end <= marker.at:
            continue
        labels = {name: value for name, value in marker.labels.items() if name in DIMENSIONS}
        concerned = sorted(_concerned(labels, cohorts_of))
        first = max(0, (marker.at - first_us) // DAY_US)
        last = min(days - 1, (marker.end - 1 - first_us) // DAY_US)
        for day in range(first, last + 1):
            yield from ((day, cohort) for cohort in concerned)


def _concerned(labels: Mapping[str, str], cohorts_of: Mapping[Cohort, frozenset[int]]) -> set[int]:
    if not labels:
        return {_ALL_COHORTS}
    return {
        cohort
        for kind, cohorts in cohorts_of.items()
        if all(getattr(kind, name) == value for name, value in labels.items())
        for cohort in cohorts
    }
