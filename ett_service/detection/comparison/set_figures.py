"""Figures of sets of attempts: durations, failures, ETT% and what the sets are made of."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection

from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import Metric, Subject
from ett_service.core.words import BEFORE_THE_LOOP, FAILURES, Category, Outcome
from ett_service.detection.comparison.drawing import in_sample
from ett_service.detection.comparison.job_sets import JobSet, dimension_values, set_of, where_any
from ett_service.detection.observed.completed import Completed, completed, completed_of
from ett_service.storage.fleet.sample import MOST_READ
from ett_service.storage.regressions import observations
from ett_service.storage.regressions.observations import (
    ObservedAttempt,
    ObservedJob,
    ObservedWait,
)

TIME_TO_START = "time_to_start"
ATTEMPT_START = "attempt_start"
ETT_RATIO = "ett_ratio"
FAILURE_RATE = "failures_per_gpu_hour"
STEP_TIME = "step_time"
STAGE_OF = "/"
"""The separator of a phase and its stage."""

_METRICS = {
    Metric.TIME_TO_START_SECONDS: TIME_TO_START,
    Metric.TIME_TO_RECOVER_SECONDS: "time_to_recover",
    Metric.CHECKPOINT_BLOCKING_SECONDS: "checkpoint_blocking",
    Metric.UNSAVED_SECONDS: "unsaved_training",
}
_FEW_JOBS = 2
_UNATTRIBUTED = Category.UNATTRIBUTED.value

Setting: TypeAlias = tuple[int, int]
"""Accelerators and tokens a step, each 0 where unknown: only steps of one setting are alike."""


@dataclass(slots=True)
class SetFigures:
    """The figures of one set."""

    attempts: int = 0
    jobs: set[str] = field(default_factory=set)
    durations_us: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    starts_us: list[dict[str, int]] = field(default_factory=list)
    """Of each attempt that reached a loop, the time before it by phase."""
    ratios: list[float] = field(default_factory=list)
    """ETT% of each job, over its attempts in the set and the waits before each."""
    times_us: Counter[str] = field(default_factory=Counter)
    """All time of the attempts and of the waits before them, by category."""
    failures: int = 0
    gpu_hours: float = 0.0
    drawn_from: int | None = None  #: of how many jobs these are a random sample; None where of none
    makeup: dict[str, dict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )
    """Attempts by dimension or label, and value."""


class SetValue(NamedTuple):
    """A value of a subject, of one attempt."""

    job: str
    number: int
    at_us: int  #: when it was over
    us: int


def values(
    conn: Connection, project_id: int, wanted: JobSet, subject: Subject, span: tuple[int, int]
) -> list[SetValue]:
    """Return the values of a subject of the attempts in a set, in order of time.

    Attempts with excluded time do not count. Subjects that are no durations have none.
    """
    jobs = {
        name: job
        for name, job in observations.jobs(conn, project_id, span, wanted.where, wanted.where)
        if wanted.may_hold(name, job)
    }
    in_span = observations.attempts(conn, project_id, span, jobs)
    attempts = [attempt for attempt in in_span if attempt.job in jobs]
    excluded = observations.exclusions(conn, project_id)
    chosen = [set_of(attempt, jobs[attempt.job], [wanted], excluded) for attempt in attempts]
    return sorted(
        (
            SetValue(
                attempts[value.attempt].job,
                attempts[value.attempt].number,
                value.known_us,
                value.us,
            )
            for value in completed_of(conn, project_id, span, jobs, attempts, subject)
            if value.us > 0
            and chosen[value.attempt] is not None
            and span[0] <= value.known_us < span[1]
        ),
        key=lambda value: (value.at_us, value.job, value.number),
    )


def measured(
    conn: Connection, project_id: int, sets: Sequence[JobSet], now_us: int, most: int = MOST_READ
) -> tuple[SetFigures, ...]:
    """Measure the attempts of each set; one that is in several counts for the last of them.

    Attempts with excluded time do not count. Of a set of more than *most* jobs a sample is read.
    """
    span = (min(each.begins_us for each in sets), now_us)
    drawn = [each.draw(conn, project_id, now_us, most) for each in sets]
    where = where_any(sets)
    only = None if None in drawn else set[str]().union(*(each.jobs for each in drawn if each))
    jobs = {
        name: job
        for name, job in observations.jobs(conn, project_id, span, DIMENSIONS, where, only)
        if any(
            each.may_hold(name, job) and in_sample(drawn, place, name) is not None
            for place, each in enumerate(sets)
        )
    }
    in_span = observations.attempts(conn, project_id, span, jobs)
    attempts = [attempt for attempt in in_span if attempt.job in jobs]
    excluded = observations.exclusions(conn, project_id)
    chosen = [
        in_sample(drawn, set_of(attempt, jobs[attempt.job], sets, excluded), attempt.job)
        for attempt in attempts
    ]
    figures = tuple(SetFigures(drawn_from=each.drawn_from if each else None) for each in drawn)
    for attempt, place in zip(attempts, chosen, strict=True):
        if place is not None:
            _count(figures[place], attempt, jobs[attempt.job])
    _count_labels(conn, project_id, figures, attempts, chosen)
    values = completed(conn, project_id, span, jobs, attempts, jobs)
    in_sets = [value for value in values if chosen[value.attempt] is not None]
    _add_durations(figures, in_sets, chosen)
    _add_step_times(figures, in_sets, attempts, chosen)
    _add_ratios(figures, attempts, chosen, observations.waits(conn, project_id, span, jobs))
    return figures


def _count(figures: SetFigures, attempt: ObservedAttempt, job: ObservedJob) -> None:
    figures.attempts += 1
    figures.jobs.add(attempt.job)
    values = {**dimension_values(attempt, job), "start": job.start_of(attempt.number)}
    for name, value in values.items():
        figures.makeup[name][value] += 1
    if attempt.gpus:
        scheduling_us = attempt.categories_us.get(Category.SCHEDULING, 0)
        held_us = attempt.ended_us - attempt.started_us - scheduling_us
        figures.gpu_hours += max(0, held_us) / HOUR_US * attempt.gpus
        figures.failures += attempt.outcome in FAILURES - {Outcome.PREEMPTED}
    if attempt.loop_started_us is not None:
        phases = {phase.value: attempt.categories_us.get(phase, 0) for phase in BEFORE_THE_LOOP}
        us = attempt.loop_started_us - attempt.started_us
        figures.starts_us.append({**phases, _UNATTRIBUTED: us - sum(phases.values())})
        figures.durations_us[ATTEMPT_START].append(us)


def _count_labels(
    conn: Connection,
    project_id: int,
    figures: Sequence[SetFigures],
    attempts: Sequence[ObservedAttempt],
    chosen: Sequence[int | None],
) -> None:
    """Count attempts by label; one that names each job, such as a run's id, tells no sets apart."""
    jobs = {job for each in figures for job in each.jobs}
    labels = dict(observations.labels(conn, project_id, jobs))
    names = _shared(labels)
    for attempt, place in zip(attempts, chosen, strict=True):
        if place is not None:
            of_job = labels.get(attempt.job, {})
            for name, shown in names.items():
                figures[place].makeup[shown][of_job.get(name, "")] += 1


def _shared(labels: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the keys of labels, each with the name that no dimension has."""
    jobs = Counter(name for of_job in labels.values() for name in of_job)
    values = Counter(
        name for name, _ in {pair for each in labels.values() for pair in each.items()}
    )
    taken = {*DIMENSIONS, "start"}
    return {
        name: f"label {name}" if name in taken else name
        for name in sorted(jobs)
        if values[name] < jobs[name] or len(labels) <= _FEW_JOBS
    }


def _add_durations(
    figures: Sequence[SetFigures], values: Sequence[Completed], chosen: Sequence[int | None]
) -> None:
    several: dict[tuple[int, str], list[int]] = defaultdict(list)
    for value in values:
        counts = value.us or value.subject.metric is Metric.UNSAVED_SECONDS
        if counts and value.of_steps is None:
            several[value.attempt, _name(value.subject)].append(value.us)
    for (attempt, name), us in several.items():
        place = chosen[attempt]
        if place is not None:
            # Most are alone, as an attempt's time in a stage is one value.
            middle = us[0] if len(us) == 1 else round(median(us))
            figures[place].durations_us[name].append(middle)


def _add_step_times(
    figures: Sequence[SetFigures],
    values: Sequence[Completed],
    attempts: Sequence[ObservedAttempt],
    chosen: Sequence[int | None],
) -> None:
    """Add the mean step time of each attempt in the setting that most attempts of each set have."""
    sums: dict[tuple[int, Setting], list[int]] = defaultdict(lambda: [0, 0])
    for value in values:
        if value.of_steps is not None:
            setting = (attempts[value.attempt].gpus or 0, value.of_steps.tokens_a_step or 0)
            sums[value.attempt, setting][0] += value.of_steps.us
            sums[value.attempt, setting][1] += value.of_steps.steps
    by_setting: dict[Setting, list[list[int]]] = defaultdict(lambda: [[] for _ in figures])
    for (attempt, setting), (us, steps) in sums.items():
        place = chosen[attempt]
        if place is not None:
            by_setting[setting][place].append(round(us / steps))
    if not by_setting:
        return
    most = max(by_setting, key=lambda setting: (min(map(len, by_setting[setting])), setting))
    if all(by_setting[most]):
        for each, step_times_us in zip(figures, by_setting[most], strict=True):
            each.durations_us[STEP_TIME] += step_times_us


@cache
def _name(subject: Subject) -> str:
    name = _METRICS.get(subject.metric, subject.phase)
    return f"{name}{STAGE_OF}{subject.stage}" if subject.stage else name


def _add_ratios(
    figures: Sequence[SetFigures],
    attempts: Sequence[ObservedAttempt],
    chosen: Sequence[int | None],
    waits: Iterator[ObservedWait],
) -> None:
    waited_us = _waited_us(attempts, waits)
    sums: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for attempt, place in zip(attempts, chosen, strict=True):
        if place is not None:
            job = sums[place, attempt.job]
            job[0] += attempt.categories_us.get(Category.EFFECTIVE_TRAINING, 0)
            waited = waited_us.get((attempt.job, attempt.number), 0)
            job[1] += sum(attempt.categories_us.values()) + waited
            times_us = figures[place].times_us
            times_us.update(attempt.categories_us)
            times_us[Category.RESTART_WAIT] += waited
    for (place, _), (effective, us) in sums.items():
        if us:
            figures[place].ratios.append(effective / us)


def _waited_us(
    attempts: Sequence[ObservedAttempt], waits: Iterator[ObservedWait]
) -> dict[tuple[str, int], int]:
    """Return the wait before each attempt; one that no attempt has ended yet is the last's.

    So the time of a job's attempts is the job's E2E, as in its ledger.
    """
    of_job: dict[str, list[ObservedAttempt]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda attempt: attempt.started_us):
        of_job[attempt.job].append(attempt)
    waited_us: dict[tuple[str, int], int] = defaultdict(int)
    for wait in waits:
        lives = of_job.get(wait.job)
        if lives:
            place = bisect_left(lives, wait.ended_us, key=lambda life: life.started_us)
            waited_us[wait.job, lives[min(place, len(lives) - 1)].number] += wait.us
    return waited_us
