"""Which durations count as completed, when each became known, and which are still open."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.regressions.finding import Cohort, Metric, Subject
from ett_service.core.words import FAILURES, Category, Outcome, Phase
from ett_service.detection.sample import Observed
from ett_service.storage.fleet.rollups import Span
from ett_service.storage.regressions import observations
from ett_service.storage.regressions.observations import (
    ObservedAttempt,
    ObservedJob,
    ObservedSegment,
    ObservedStage,
    open_segments,
)

BEFORE_THE_LOOP = (
    Category.SCHEDULING,
    Category.HARDWARE_SETUP,
    Category.LAUNCHER_INIT,
    Category.PT2_COMPILE,
)
IN_THE_LOOP = frozenset(
    {Category.CHECKPOINT_BLOCKING, Category.EVALUATION, Category.RECOMPILE, Category.STALLED}
)
ALL_FAILURES = Subject(Metric.FAILURES_PER_GPU_HOUR)
"""But preemptions, which follow from load, and have a subject of their own."""


class Completed(NamedTuple):
    """One value of a subject, of the attempt in a place of the list that was given."""

    subject: Subject
    us: int
    known_us: int
    attempt: int


def completed(
    conn: Connection,
    project_id: int,
    span: Span,
    jobs: Mapping[str, ObservedJob],
    attempts: Sequence[ObservedAttempt],
) -> Iterator[Completed]:
    """Yield every value of these attempts; those known outside of the span, too."""
    places = {(one.job, one.number): place for place, one in enumerate(attempts)}
    going_on = {
        (places.get((one.job, one.number)), one.category)
        for one in observations.open_segments(conn, project_id, span[1])
    }
    for one in _phases(attempts):
        if (one.attempt, one.subject.phase) not in going_on:
            yield one
    yield from _starts(jobs, attempts)
    yield from _stages(observations.stages(conn, project_id, span), attempts, places)
    for stretch in observations.segments(conn, project_id, span, IN_THE_LOOP):
        place = places[stretch.job, stretch.number]
        us = stretch.ended_us - stretch.started_us
        yield Completed(_IN_THE_LOOP[stretch.category], us, stretch.ended_us, place)
    for recovery in observations.recoveries(conn, project_id, span):
        resumed = places.get((recovery.job, recovery.resumed))
        if resumed is not None:
            yield Completed(_TIME_TO_RECOVER, recovery.us, recovery.ended_us, resumed)


def failures(attempts: Sequence[ObservedAttempt]) -> Iterator[Completed]:
    """Yield every failure, of no length: once by its cause, and but for preemptions among all."""
    for place, one in enumerate(attempts):
        if one.outcome in FAILURES:
            cause = f"{one.origin}/{one.cause}"
            yield Completed(ALL_FAILURES._replace(cause=cause), 0, one.ended_us, place)
            if one.outcome is not Outcome.PREEMPTED:
                yield Completed(ALL_FAILURES, 0, one.ended_us, place)


_TIME_TO_START = Subject(Metric.TIME_TO_START_SECONDS)
_TIME_TO_RECOVER = Subject(Metric.TIME_TO_RECOVER_SECONDS)
_UNSAVED = Subject(Metric.UNSAVED_SECONDS)
_BEFORE_THE_LOOP = {
    category.value: Subject(Metric.PHASE_SECONDS, category.value) for category in BEFORE_THE_LOOP
}
_SHUTDOWN = Subject(Metric.PHASE_SECONDS, Category.SHUTDOWN.value)
_SAVE = Subject(Metric.CHECKPOINT_BLOCKING_SECONDS, Category.CHECKPOINT_BLOCKING.value)
_IN_THE_LOOP = {
    category.value: Subject(Metric.PHASE_SECONDS, category.value) for category in IN_THE_LOOP
} | {Category.CHECKPOINT_BLOCKING.value: _SAVE}
_STAGED_BEFORE = frozenset(_BEFORE_THE_LOOP)


def _phases(attempts: Sequence[ObservedAttempt]) -> Iterator[Completed]:
    for place, one in enumerate(attempts):
        if one.loop_started_us is not None:
            for category, subject in _BEFORE_THE_LOOP.items():
                if us := one.categories_us.get(category, 0):
                    yield Completed(subject, us, one.loop_started_us, place)
        if one.outcome in FAILURES:
            yield Completed(_UNSAVED, one.unsaved_us, one.ended_us, place)
        elif one.outcome is not Outcome.RUNNING:
            us = one.categories_us.get(Category.SHUTDOWN, 0)
            yield Completed(_SHUTDOWN, us, one.ended_us, place)


def _starts(
    jobs: Mapping[str, ObservedJob], attempts: Sequence[ObservedAttempt]
) -> Iterator[Completed]:
    """Yield each job's time to start with the attempt that reached a loop first.

    Of a job whose first attempt lived before the span it is not known which one that was.
    """
    first: dict[str, tuple[int, int]] = {}
    begun = {one.job for one in attempts if one.number == 0}
    for place, one in enumerate(attempts):
        if one.loop_started_us is not None:
            reached = (one.loop_started_us, place)
            first[one.job] = min(reached, first.get(one.job, reached))
    for job, (known_us, place) in first.items():
        us = jobs[job].time_to_start_us
        if us is not None and job in begun:
            yield Completed(_TIME_TO_START, us, known_us, place)


def _stages(
    stages: Iterator[ObservedStage],
    attempts: Sequence[ObservedAttempt],
    places: Mapping[tuple[str, int], int],
) -> Iterator[Completed]:
    """Yield stages as the phases that they are of; of one inside the loop, the mean of its spans.

    Such means are known with the attempt's end.
    """
    subjects: dict[tuple[str, str], Subject] = {}
    for job, number, phase, stage, spans, us in stages:
        place = places[job, number]
        known_us = _known_us(attempts[place], phase)
        if known_us is None:
            continue
        subject = subjects.get((phase, stage))
        if subject is None:
            subject = subjects[phase, stage] = Subject(Metric.STAGE_SECONDS, phase, stage)
        repeats = phase not in _STAGED_BEFORE and phase != Phase.SHUTDOWN
        yield Completed(subject, round(us / spans) if repeats else us, known_us, place)


def _known_us(attempt: ObservedAttempt, phase: str) -> int | None:
    """Return when a stage of the phase is over; None where it is not, or was cut short."""
    if phase in _STAGED_BEFORE:
        return attempt.loop_started_us
    is_over = attempt.outcome is not Outcome.RUNNING
    cut_short = phase == Phase.SHUTDOWN and attempt.outcome in FAILURES
    return attempt.ended_us if is_over and not cut_short else None


LONG_US = 600 * SECOND_US
"""What is open for less is not called stuck, however short others are."""

TIMES = 3
"""What is open for so many times the 99th percentile is."""

STILL_US = 1_800 * SECOND_US
"""So is a save or a stall that is open for so long."""

_DAYS = 28
_ABIDE = frozenset(
    {
        Category.EFFECTIVE_TRAINING,
        Category.REPEATED_TRAINING,
        Category.RESTART_WAIT,
        Category.UNATTRIBUTED,
    }
)
_STILL = frozenset({Category.CHECKPOINT_BLOCKING, Category.STALLED})


@dataclass(frozen=True, slots=True)
class OpenPhase:
    """The attempt of a cohort that is longest in a phase."""

    cohort: Cohort
    phase: str
    job: str
    number: int
    age_us: int
    p99_us: int | None  #: of those of its cluster that were over in 28 days; None without any

    @property
    def stuck(self) -> bool:
        """Whether it is open for much longer than others; the rule of ``EttPhaseStuck``."""
        if self.phase in _STILL and self.age_us > STILL_US:
            return True
        return self.p99_us is not None and self.age_us > max(LONG_US, TIMES * self.p99_us)


def open_phases(
    conn: Connection, project_id: int, observed: Observed, at_us: int
) -> list[OpenPhase]:
    """Return the oldest open phase of each kind and cohort at an instant, the oldest first."""
    oldest: dict[tuple[Cohort, str], OpenPhase] = {}
    for one in _open(conn, project_id, observed, at_us):
        key = (one.cohort, one.phase)
        if key not in oldest or one.age_us > oldest[key].age_us:
            oldest[key] = one
    return sorted(oldest.values(), key=lambda one: (-one.age_us, one.job, one.phase))


def _open(conn: Connection, project_id: int, observed: Observed, at_us: int) -> Iterator[OpenPhase]:
    units = zip(observed.attempts.unit.tolist(), observed.attempts.number.tolist(), strict=True)
    places = {(observed.jobs[unit], number): place for place, (unit, number) in enumerate(units)}
    for stretch in open_segments(conn, project_id, at_us):
        place = places.get((stretch.job, stretch.number))
        if place is not None and stretch.category not in _ABIDE:
            yield _phase(observed, stretch, observed.attempts.cohort[place], at_us)


def _phase(observed: Observed, stretch: ObservedSegment, cohort: int, at_us: int) -> OpenPhase:
    return OpenPhase(
        cohort=observed.cohorts[cohort],
        phase=stretch.category,
        job=stretch.job,
        number=stretch.number,
        age_us=at_us - stretch.started_us,
        p99_us=_p99_us(observed, stretch.category, cohort, at_us),
    )


def _p99_us(observed: Observed, phase: str, cohort: int, at_us: int) -> int | None:
    values = observed.durations.get(Subject(Metric.PHASE_SECONDS, phase))
    if values is None:
        return None
    cluster = dict(observed.cohorts[cohort]).get("cluster")
    alike = np.array([dict(one).get("cluster") == cluster for one in observed.cohorts])
    recent = values.between(at_us - _DAYS * DAY_US, at_us)
    us = recent.us[alike[observed.attempts.cohort[recent.attempt]]]
    return int(np.quantile(us, 0.99)) if len(us) else None
