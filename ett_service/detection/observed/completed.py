"""Completed values of attempts: durations, failures, and which starts missed their cache."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection

from ett_service.core.intervals import DAY_US
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.ledger.results import StepTime
from ett_service.core.ledger.speed import FEWEST_WINDOWS
from ett_service.core.regressions.finding import Metric, Subject
from ett_service.core.words import BEFORE_THE_LOOP, FAILURES, WASTED, Category, Outcome, Phase
from ett_service.storage.fleet.rollups import Span
from ett_service.storage.regressions import observations
from ett_service.storage.regressions.observations import (
    ObservedAttempt,
    ObservedJob,
    ObservedRun,
    ObservedStage,
)

LOOP_CATEGORIES = WASTED - {Category.REPEATED_TRAINING}
MISSES = Subject(Metric.CACHE_MISS_RATIO, Phase.PT2_COMPILE.value)
"""Starts that missed the compile cache, of those that asked it."""

ALL_FAILURES = Subject(Metric.FAILURES_PER_GPU_HOUR)
"""All but preemptions, which follow from load and have a subject of their own."""

_TIME_TO_START = Subject(Metric.TIME_TO_START_SECONDS)
_TIME_TO_RECOVER = Subject(Metric.TIME_TO_RECOVER_SECONDS)
_UNSAVED = Subject(Metric.UNSAVED_SECONDS)
_STEP = Subject(Metric.STEP_SECONDS)
_CHECKPOINT = Subject(Metric.CHECKPOINT_BLOCKING_SECONDS, Category.CHECKPOINT_BLOCKING.value)


def phase_subject(phase: str) -> Subject:
    """Return the subject of a phase's durations; of checkpoints, each is a value."""
    if phase == Category.CHECKPOINT_BLOCKING:
        return _CHECKPOINT
    return Subject(Metric.PHASE_SECONDS, phase)


_START = {category.value: phase_subject(category.value) for category in BEFORE_THE_LOOP}
_LOOP = {category.value: phase_subject(category.value) for category in LOOP_CATEGORIES}
_LOOP_SUBJECTS = frozenset(_LOOP.values())
_HIT = "warm"
_CACHE_STATES = frozenset({_HIT, "mixed", "cold"})
_SHUTDOWN = phase_subject(Category.SHUTDOWN.value)


class Completed(NamedTuple):
    """A value of a subject, of the attempt in a place of the list that was given."""

    subject: Subject
    us: int
    known_us: int
    attempt: int
    of_steps: StepTime | None = None  #: whose mean it is
    spent_us: int | None = None  #: the time of what it counts; None for ``us``


def completed(
    conn: Connection,
    project_id: int,
    span: Span,
    jobs: Mapping[str, ObservedJob],
    attempts: Sequence[ObservedAttempt],
    only: observations.Jobs = None,
) -> Iterator[Completed]:
    """Yield every duration of the attempts of the span, or of *only* some jobs."""
    places = _places(attempts)
    still_open = _still_open(conn, project_id, span, attempts, places)
    for value in _phases(attempts):
        if (value.attempt, value.subject.phase) not in still_open:
            yield value
    yield from _starts(jobs, attempts)
    yield from _steps(attempts)
    yield from _stages(observations.stages(conn, project_id, span, only), attempts, places)
    yield from _in_the_loop(conn, project_id, span, places, LOOP_CATEGORIES, only)
    yield from _recoveries(conn, project_id, span, places, only)


def completed_of(
    conn: Connection,
    project_id: int,
    span: Span,
    jobs: Mapping[str, ObservedJob],
    attempts: Sequence[ObservedAttempt],
    subject: Subject,
) -> Iterator[Completed]:
    """Yield those of :func:`completed` that are of one subject; only its rows are read."""
    places, metric = _places(attempts), subject.metric
    values: Iterable[Completed] = ()
    if subject in _LOOP_SUBJECTS:
        category = frozenset({Category(subject.phase)})
        values = _in_the_loop(conn, project_id, span, places, category, jobs)
    elif metric is Metric.STAGE_SECONDS:
        of_stage = (subject.phase, subject.stage)
        values = _stages(
            observations.stages(conn, project_id, span, jobs, of_stage), attempts, places
        )
    elif metric is Metric.TIME_TO_START_SECONDS:
        values = _starts(jobs, attempts)
    elif metric is Metric.TIME_TO_RECOVER_SECONDS:
        values = _recoveries(conn, project_id, span, places, jobs)
    elif metric is Metric.STEP_SECONDS:
        values = _steps(attempts)
    else:
        still_open = _still_open(conn, project_id, span, attempts, places)
        values = (
            value
            for value in _phases(attempts)
            if (value.attempt, value.subject.phase) not in still_open
        )
    return (value for value in values if value.subject == subject)


_Places: TypeAlias = Mapping[tuple[str, int], int]


def _places(attempts: Sequence[ObservedAttempt]) -> _Places:
    return {(attempt.job, attempt.number): place for place, attempt in enumerate(attempts)}


def _still_open(
    conn: Connection,
    project_id: int,
    span: Span,
    attempts: Sequence[ObservedAttempt],
    places: _Places,
) -> set[tuple[int | None, str]]:
    """Return the places of the attempts that live at the end of the span, and in which category.

    Few do, and only the segments of their jobs are read.
    """
    at_us = span[1]
    jobs = {
        attempt.job
        for attempt in attempts
        if attempt.started_us <= at_us
        and (attempt.ended_us > at_us or attempt.outcome is Outcome.RUNNING)
    }
    if not jobs:
        return set()
    return {
        (places.get((segment.job, segment.number)), segment.category)
        for segment in observations.open_segments(conn, project_id, at_us, jobs)
    }


def _in_the_loop(
    conn: Connection,
    project_id: int,
    span: Span,
    places: _Places,
    categories: frozenset[Category],
    only: observations.Jobs,
) -> Iterator[Completed]:
    for segment in observations.segments(conn, project_id, span, categories, only):
        us = segment.ended_us - segment.started_us
        place = places.get((segment.job, segment.number))
        if place is not None:
            yield Completed(_LOOP[segment.category], us, segment.ended_us, place)


def _recoveries(
    conn: Connection, project_id: int, span: Span, places: _Places, only: observations.Jobs
) -> Iterator[Completed]:
    for recovery in observations.recoveries(conn, project_id, span, only):
        resumed = places.get((recovery.job, recovery.resumed))
        if resumed is not None:
            yield Completed(_TIME_TO_RECOVER, recovery.us, recovery.ended_us, resumed)


def failures(attempts: Sequence[ObservedAttempt]) -> Iterator[Completed]:
    """Yield every failure, of no length: by its cause, and unless preempted among all."""
    for place, attempt in enumerate(attempts):
        if attempt.outcome in FAILURES:
            cause = f"{attempt.origin}/{attempt.cause}"
            yield Completed(ALL_FAILURES._replace(cause=cause), 0, attempt.ended_us, place)
            if attempt.outcome is not Outcome.PREEMPTED:
                yield Completed(ALL_FAILURES, 0, attempt.ended_us, place)


def misses(attempts: Sequence[ObservedAttempt]) -> Iterator[Completed]:
    """Yield, for each start that asked the compile cache, 1 if it missed any of it, else 0."""
    for place, attempt in enumerate(attempts):
        us = attempt.categories_us.get(Category.PT2_COMPILE, 0)
        if attempt.loop_started_us is not None and us and attempt.compile_cache in _CACHE_STATES:
            missed = int(attempt.compile_cache != _HIT)
            yield Completed(MISSES, missed, attempt.loop_started_us, place, spent_us=us)


def _phases(attempts: Sequence[ObservedAttempt]) -> Iterator[Completed]:
    for place, attempt in enumerate(attempts):
        if attempt.loop_started_us is not None:
            for category, subject in _START.items():
                if us := attempt.categories_us.get(category, 0):
                    yield Completed(subject, us, attempt.loop_started_us, place)
        if attempt.outcome in FAILURES:
            yield Completed(_UNSAVED, attempt.unsaved_us, attempt.ended_us, place)
        elif attempt.outcome is not Outcome.RUNNING:
            us = attempt.categories_us.get(Category.SHUTDOWN, 0)
            yield Completed(_SHUTDOWN, us, attempt.ended_us, place)


def _starts(
    jobs: Mapping[str, ObservedJob], attempts: Sequence[ObservedAttempt]
) -> Iterator[Completed]:
    """Yield each run's time to start with the attempt that reached the loop first.

    If a run's first attempt lived before the span, that attempt is unknown.
    """
    first: dict[tuple[str, ObservedRun], tuple[int, int]] = {}
    begun = {(attempt.job, attempt.number) for attempt in attempts}
    for place, attempt in enumerate(attempts):
        if attempt.loop_started_us is not None:
            run = jobs[attempt.job].run_of(attempt.number)
            reached = (attempt.loop_started_us, place)
            first[attempt.job, run] = min(reached, first.get((attempt.job, run), reached))
    for (job, run), (known_us, place) in first.items():
        if run.time_to_start_us is not None and (job, run.first_attempt) in begun:
            yield Completed(_TIME_TO_START, run.time_to_start_us, known_us, place)


def _steps(attempts: Sequence[ObservedAttempt]) -> Iterator[Completed]:
    """Yield the mean step time of each day of an attempt; it is known once the day is over."""
    for place, attempt in enumerate(attempts):
        over_us = NEVER if attempt.outcome is Outcome.RUNNING else attempt.ended_us
        for of_day in attempt.step_times:
            if of_day.windows >= FEWEST_WINDOWS:
                known_us = min((of_day.day + 1) * DAY_US - 1, over_us)
                us = round(of_day.us / of_day.steps)
                yield Completed(_STEP, us, known_us, place, of_day)


def _stages(
    stages: Iterator[ObservedStage],
    attempts: Sequence[ObservedAttempt],
    places: Mapping[tuple[str, int], int],
) -> Iterator[Completed]:
    """Yield the stages of phases that are over; of one inside the loop, the mean of its spans."""
    subjects: dict[tuple[str, str], Subject] = {}
    for job, number, phase, stage, spans, us in stages:
        place = places.get((job, number))
        known_us = None if place is None else _stage_known_us(attempts[place], phase)
        if place is None or known_us is None:
            continue
        subject = subjects.get((phase, stage))
        if subject is None:
            subject = subjects[phase, stage] = Subject(Metric.STAGE_SECONDS, phase, stage)
        repeats = phase not in _START and phase != Phase.SHUTDOWN
        yield Completed(subject, round(us / spans) if repeats else us, known_us, place)


def _stage_known_us(attempt: ObservedAttempt, phase: str) -> int | None:
    """Return when a stage of the phase was over; None where it is not, or was cut short."""
    if phase in _START:
        return attempt.loop_started_us
    is_over = attempt.outcome is not Outcome.RUNNING
    cut_short = phase == Phase.SHUTDOWN and attempt.outcome in FAILURES
    return attempt.ended_us if is_over and not cut_short else None
