"""From the store to what is searched: completed durations, failures and time, by cohort.

A duration belongs to the instant at which it was over, by the clocks of its events: a replay as of
an instant sees only what was over by then. Received times are not looked at, so what came late is
seen as if it had come in time, at its own place; exclusions, verdicts and markers are seen as they
stand now.
"""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from sqlalchemy import Connection

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.dimensions import Cohort as Kind
from ett_service.core.fleet.cohort import MOST_ACCELERATORS, size_of
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Cohort, Metric, Subject
from ett_service.core.words import OTHER, Category
from ett_service.detection.completed import Completed, completed, failures
from ett_service.detection.options import MOST_COHORTS, MOST_STAGES, Plan
from ett_service.detection.sample import Attempts, AttemptValues, Held, Ints, Observed, SmallInts
from ett_service.detection.window import Excluded, days_left_out, maintained
from ett_service.storage.regressions import observations
from ett_service.storage.regressions.observations import (
    DayOfTime,
    SeenAttempt,
    SeenJob,
    days_of_time,
)

_RATE = Metric.FAILURES_PER_GPU_HOUR


def observe(conn: Connection, project_id: int, to_us: int, days: int, plan: Plan) -> Observed:
    """Read what a project's attempts lived through in the *days* before an instant.

    Sums of time are by full hours: where the instant is on none, they end up to an hour before.
    """
    span = (to_us - days * DAY_US, to_us)
    named = {*plan.cohort, *plan.strata}
    jobs = dict(observations.jobs(conn, project_id, span, precision="precision" in named))
    attempts = [one for one in observations.attempts(conn, project_id, span) if one.job in jobs]
    first_hour_us = span[0] // HOUR_US * HOUR_US
    time = list(days_of_time(conn, project_id, first_hour_us, days, plan.cohort))
    columns = _Columns(plan, jobs, attempts, time)
    excluded = Excluded(
        {
            columns.units[job]: windows
            for job, windows in observations.exclusions(conn, project_id).items()
            if job in columns.units
        }
    )
    found = completed(conn, project_id, span, jobs, attempts)
    return Observed(
        to_us=to_us,
        days=days,
        cohorts=columns.cohorts,
        jobs=columns.jobs,
        hardware=columns.hardware,
        attempts=columns.attempts,
        durations=dict(_values(found, columns.attempts, excluded, span)),
        failures=dict(_values(failures(attempts), columns.attempts, excluded, span)),
        held=columns.held(attempts, excluded),
        time_day=np.array([one.day for one in time], dtype=np.int32),
        time_cohort=columns.time_cohorts(time),
        time={
            category: np.array([one.us[place] for one in time], dtype=np.float64)
            for place, category in enumerate(Category)
        },
        left_out=frozenset(
            days_left_out(maintained(conn, project_id, span[0], days), columns.of_kind)
        ),
    )


class _Columns:
    """Words as places: which cohort, stratum, job and hardware each attempt is of."""

    def __init__(
        self,
        plan: Plan,
        jobs: Mapping[str, SeenJob],
        attempts: Sequence[SeenAttempt],
        time: Iterable[DayOfTime],
    ) -> None:
        self._plan = plan
        self._other = (OTHER,) * len(plan.cohort)
        kinds = [_kind(jobs[one.job], one) for one in attempts]
        cohorts = _of_dimensions(kinds, plan.cohort)
        counts = Counter(cohorts)
        kept = {one for one, _ in sorted(counts.items(), key=_largest_first)[:MOST_COHORTS]}
        cohorts = [one if one in kept else self._other for one in cohorts]
        told = {self._other if one.other or one.labels not in kept else one.labels for one in time}
        self._places = {one: place for place, one in enumerate(sorted({*cohorts, *told}))}
        self.cohorts: list[Cohort] = [
            tuple(zip(plan.cohort, one, strict=True)) for one in self._places
        ]
        starts = ["restart" if one.number else "first" for one in attempts]
        strata = list(zip(_of_dimensions(kinds, plan.strata), starts, strict=True))
        self.jobs = sorted(jobs)
        self.units = {job: place for place, job in enumerate(self.jobs)}
        self.hardware = sorted({one.hardware for one in kinds})
        self.of_kind = _cohorts_of(kinds, [self._places[one] for one in cohorts])
        self.attempts = Attempts(
            cohort=_placed(cohorts, self._places),
            stratum=_placed(strata, {one: place for place, one in enumerate(sorted(set(strata)))}),
            unit=_placed([one.job for one in attempts], self.units),
            number=np.array([one.number for one in attempts], dtype=np.int32),
            gpus=np.array([_known(one.gpus) for one in attempts], dtype=np.float64),
            hardware=_placed(
                [one.hardware for one in kinds],
                {one: place for place, one in enumerate(self.hardware)},
            ),
        )

    def held(self, attempts: Sequence[SeenAttempt], excluded: Excluded) -> Held:
        """Return when accelerators were held: from the end of scheduling, which comes first."""
        rows = array("q")
        for place, one in enumerate(attempts):
            began_us = one.started_us + one.categories_us.get(Category.SCHEDULING, 0)
            for start, end in excluded.left_of(self.units[one.job], (began_us, one.ended_us)):
                rows.extend((start, max(start, end), place))
        from_us, to_us, attempt = _columns(rows)
        return Held(from_us, to_us, attempt)

    def time_cohorts(self, time: Iterable[DayOfTime]) -> SmallInts:
        """Return the place of each row's cohort."""
        other = self._places.get(self._other, 0)
        return np.array(
            [other if one.other else self._places.get(one.labels, other) for one in time],
            dtype=np.int32,
        )


def _kind(job: SeenJob, attempt: SeenAttempt) -> Kind:
    return Kind(
        job.team, job.model, job.cluster, job.hardware, job.precision, job.kind,
        size_of(attempt.gpus), attempt.code_version,
    )  # fmt: skip


def _of_dimensions(kinds: Iterable[Kind], names: Sequence[str]) -> list[tuple[str, ...]]:
    wanted = [DIMENSIONS.index(name) for name in names]
    return [tuple([kind[place] for place in wanted]) for kind in kinds]  # type: ignore[misc]


def _cohorts_of(kinds: Sequence[Kind], cohorts: Sequence[int]) -> Mapping[Kind, frozenset[int]]:
    found: defaultdict[Kind, set[int]] = defaultdict(set)
    for kind, cohort in zip(kinds, cohorts, strict=True):
        found[kind].add(cohort)
    return {kind: frozenset(places) for kind, places in found.items()}


def _values(
    found: Iterable[Completed], attempts: Attempts, excluded: Excluded, span: tuple[int, int]
) -> Iterator[tuple[Subject, AttemptValues]]:
    """Put values in order of time, without those that are excluded."""
    rows: defaultdict[Subject, array[int]] = defaultdict(lambda: array("q"))
    for subject, us, known_us, attempt in found:
        if span[0] <= known_us < span[1] and (us > 0 or subject.metric is _RATE):
            rows[subject].extend((us, known_us, attempt))
    for subject in _looked_at(rows):
        lengths, known, places = _columns(rows[subject])
        order = np.lexsort((lengths, places, known))
        order = order[excluded.counts(attempts.unit[places[order]], known[order])]
        yield subject, AttemptValues(lengths[order], known[order], places[order])


def _looked_at(rows: Mapping[Subject, Sized]) -> list[Subject]:
    """Return all subjects but the rarest stages."""
    stages = [one for one in rows if one.metric is Metric.STAGE_SECONDS]
    stages.sort(key=lambda one: (-len(rows[one]), one))
    return sorted(rows.keys() - stages[MOST_STAGES:])


def _columns(rows: "array[int]") -> tuple[Ints, Ints, Ints]:
    table = np.frombuffer(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _placed(values: Iterable[Hashable], places: Mapping[Any, int]) -> SmallInts:
    return np.array([places[one] for one in values], dtype=np.int32)


def _known(gpus: int | None) -> float:
    """Return accelerators as far as they can be believed."""
    return float(gpus) if gpus and gpus <= MOST_ACCELERATORS else math.nan


def _largest_first(counted: tuple[tuple[str, ...], int]) -> tuple[int, tuple[str, ...]]:
    return -counted[1], counted[0]
