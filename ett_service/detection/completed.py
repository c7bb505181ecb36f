"""Which durations count as completed, and when each became known.

- what comes before the loop (``scheduling`` to ``pt2_compile``) when the attempt reached it: of one
  that did not, the last part was cut short;
- ``shutdown`` at the end of an attempt that did not fail;
- what happens inside the loop one stretch at a time, at its end: a save, an evaluation, a
  recompile, a stall. Summed up over an attempt they would tell how long it trained;
- time to start with the job's first loop, recoveries after a failure with the loop they led to;
- training that was lost, with the failure that lost it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from ett_service.core.regression import Metric, Subject
from ett_service.core.vocabulary import FAILURES, Category, Outcome, Phase
from ett_service.storage import observations
from ett_service.storage.observations import SeenAttempt, SeenJob, SeenStage
from ett_service.storage.rollups import Span

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
    jobs: Mapping[str, SeenJob],
    attempts: Sequence[SeenAttempt],
) -> Iterator[Completed]:
    """Yield every value of these attempts; those known outside of the span, too."""
    places = {(one.job, one.number): place for place, one in enumerate(attempts)}
    going_on = {
        (places.get((one.job, one.number)), one.category)
        for one in observations.open_stretches(conn, project_id, span[1])
    }
    for one in _phases(attempts):
        if (one.attempt, one.subject.phase) not in going_on:
            yield one
    yield from _starts(jobs, attempts)
    yield from _stages(observations.stages(conn, project_id, span), attempts, places)
    for stretch in observations.stretches(conn, project_id, span, IN_THE_LOOP):
        place = places[stretch.job, stretch.number]
        us = stretch.ended_us - stretch.started_us
        yield Completed(_IN_THE_LOOP[stretch.category], us, stretch.ended_us, place)
    for recovery in observations.recoveries(conn, project_id, span):
        resumed = places.get((recovery.job, recovery.resumed))
        if resumed is not None:
            yield Completed(_TIME_TO_RECOVER, recovery.us, recovery.ended_us, resumed)


def failures(attempts: Sequence[SeenAttempt]) -> Iterator[Completed]:
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


def _phases(attempts: Sequence[SeenAttempt]) -> Iterator[Completed]:
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


def _starts(jobs: Mapping[str, SeenJob], attempts: Sequence[SeenAttempt]) -> Iterator[Completed]:
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
    stages: Iterator[SeenStage],
    attempts: Sequence[SeenAttempt],
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


def _known_us(attempt: SeenAttempt, phase: str) -> int | None:
    """Return when a stage of the phase is over; None where it is not, or was cut short."""
    if phase in _STAGED_BEFORE:
        return attempt.loop_started_us
    is_over = attempt.outcome is not Outcome.RUNNING
    cut_short = phase == Phase.SHUTDOWN and attempt.outcome in FAILURES
    return attempt.ended_us if is_over and not cut_short else None
