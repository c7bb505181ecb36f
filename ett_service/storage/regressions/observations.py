"""Observations of a project's attempts and time, for the search for regressions."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Select, Table, and_, case, func, literal_column, or_, select

from ett_service.core.dimensions import (
    DIMENSIONS,
    JOB_DIMENSIONS,
    WHOLE_JOB_DIMENSIONS,
    Cohort,
    Facts,
)
from ett_service.core.events import Exclusion
from ett_service.core.fleet.owned_time import size_of
from ett_service.core.ledger.results import StepTime
from ett_service.core.words import FAILURES, Category, Outcome
from ett_service.storage.engine.driver import in_batches
from ett_service.storage.fleet.rollups import Span
from ett_service.storage.schema import (
    attempt_ledger,
    correction,
    job_ledger,
    recovery,
    segment,
    stage_time,
)
from ett_service.storage.schema.record import EXCLUSION


def kind_of_start(number: int, firsts: Collection[int]) -> str:
    """Return ``first`` for the first attempt of a run, of those in *firsts*, else ``restart``."""
    return "first" if number in firsts else "restart"


class ObservedJob(NamedTuple):
    """A job that lived in the span."""

    dimensions: tuple[str, ...]  #: ``WHOLE_JOB_DIMENSIONS``, empty where unknown
    runs: tuple["ObservedRun", ...]

    def run_of(self, number: int) -> "ObservedRun":
        """Return the run of the attempt of this number."""
        return self.runs[bisect_right(self.runs, number, key=lambda run: run.first_attempt) - 1]

    def start_of(self, number: int) -> str:
        """Return how the attempt of this number began its run: ``first`` or ``restart``."""
        return kind_of_start(number, [self.run_of(number).first_attempt])


class ObservedRun(NamedTuple):
    """One run of a job."""

    first_attempt: int  #: its number
    time_to_start_us: int | None


class ObservedAttempt(NamedTuple):
    """An attempt that lived in the span."""

    job: str
    number: int
    started_us: int
    ended_us: int  #: as of its ledger while it runs
    outcome: Outcome
    origin: str | None
    cause: str | None
    gpus: int | None
    code_version: str
    unsaved_us: int
    loop_started_us: int | None
    categories_us: dict[str, int]
    step_times: tuple[StepTime, ...] = ()
    compile_cache: str = ""  #: as of its ledger; empty where it is untold


def cohort_of(job: ObservedJob, attempt: ObservedAttempt) -> Cohort:
    """Return the cohort of an attempt."""
    return Cohort._make((*job.dimensions, size_of(attempt.gpus), attempt.code_version, False))


class ObservedStage(NamedTuple):
    """The time that an attempt spent in all spans of a stage."""

    job: str
    number: int
    phase: str
    stage: str
    spans: int
    inclusive_us: int


class ObservedRecovery(NamedTuple):
    """A recovery after a failure that is over."""

    job: str
    resumed: int  #: the attempt that it led to
    ended_us: int
    us: int


class ObservedSegment(NamedTuple):
    """A segment of an attempt's time in one category, such as one checkpoint."""

    job: str
    number: int
    category: str
    started_us: int
    ended_us: int


class _AttemptResult(msgspec.Struct):
    categories_us: dict[str, int]
    loop_started_at: int | None = None
    step_times: tuple[StepTime, ...] = ()
    compile_cache: str | None = None


class _RunResult(msgspec.Struct):
    first_attempt: int
    time_to_start_us: int | None


class _JobResult(msgspec.Struct):
    facts: Facts
    runs: tuple[_RunResult, ...] = ()


_JOBS_PER_QUERY = 500
_FEW_JOBS = 6_000

Jobs: TypeAlias = Collection[str] | None
"""The jobs that are wanted; None for all."""

_attempt_result = msgspec.json.Decoder(_AttemptResult).decode
_job_result = msgspec.json.Decoder(_JobResult).decode
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_ANY: Mapping[str, Collection[str]] = {}
_UNSTORED = tuple(name for name in WHOLE_JOB_DIMENSIONS if name not in JOB_DIMENSIONS)


def jobs(
    conn: Connection,
    project_id: int,
    span: Span,
    named: Collection[str] = DIMENSIONS,
    where: Mapping[str, Collection[str]] = _ANY,
    only: Jobs = None,
) -> Iterator[tuple[str, ObservedJob]]:
    """Yield the jobs that lived in the span, or of *only* some.

    Of dimensions without a column of their own, only those that are *named* are read. Of those
    with one, *where* gives the values that are wanted; ``""`` is unknown.
    """
    columns = job_ledger.c
    unstored = [name for name in _UNSTORED if name in named]
    statement: Select[Any] = select(
        columns.job,
        columns.time_to_start_us,
        *(columns[name] for name in JOB_DIMENSIONS),
        columns.answer if unstored else case((columns.runs > 1, columns.answer)),
    ).where(
        *_lived_in(job_ledger, project_id, span, only),
        *(
            func.coalesce(columns[name], "").in_(sorted(where[name]))
            for name in JOB_DIMENSIONS
            if name in where
        ),
    )
    for job, to_start_us, *values, answer in in_batches(conn.execute(statement)):
        stated = dict(zip(JOB_DIMENSIONS, values, strict=True))
        runs: tuple[ObservedRun, ...] = (ObservedRun(0, to_start_us),)
        if answer is not None:
            result = _job_result(answer)
            stated |= {name: getattr(result.facts, name) for name in unstored}
            runs = tuple(
                ObservedRun(run.first_attempt, run.time_to_start_us) for run in result.runs
            )
        dimensions = tuple([stated.get(name) or "" for name in WHOLE_JOB_DIMENSIONS])
        yield job, ObservedJob(dimensions, runs)


def first_start(conn: Connection, project_id: int) -> int | None:
    """Return when the first of the jobs began; None where there is none."""
    first = select(func.min(job_ledger.c.started_us)).where(job_ledger.c.project_id == project_id)
    started_us: int | None = conn.scalar(first)
    return started_us


def attempts(
    conn: Connection, project_id: int, span: Span, only: Jobs = None
) -> Iterator[ObservedAttempt]:
    """Yield the attempts that lived in the span, in order of job and number."""
    names = ("job", "number", "started_us", "ended_us", "outcome", "origin", "cause", "gpus",
             "code_version", "unsaved_us", "answer")  # fmt: skip
    statement: Select[Any] = (
        select(*(attempt_ledger.c[name] for name in names))
        .where(*_lived_in(attempt_ledger, project_id, span, only))
        .order_by(attempt_ledger.c.job, attempt_ledger.c.number)
    )
    for row in in_batches(conn.execute(statement)):
        job, number, started_us, ended_us, outcome, origin, cause, gpus, *rest = row
        version, unsaved_us, answer = rest
        result = _attempt_result(answer)
        yield ObservedAttempt(
            job, number, started_us, ended_us, _OUTCOMES[outcome], origin, cause, gpus,
            version or "", unsaved_us, result.loop_started_at, result.categories_us,
            result.step_times, result.compile_cache or "",
        )  # fmt: skip


def stages(
    conn: Connection,
    project_id: int,
    span: Span,
    only: Jobs = None,
    named: tuple[str, str] | None = None,
) -> Iterator[ObservedStage]:
    """Yield the stages of these attempts, or of them the one of a phase that is *named* so."""
    statement: Select[Any] = (
        select(*(stage_time.c[name] for name in ObservedStage._fields))
        .join_from(attempt_ledger, stage_time, _of_the_attempt(stage_time))
        .where(*_lived_in(attempt_ledger, project_id, span, only))
    )
    if named is not None:
        phase, stage = named
        statement = statement.where(stage_time.c.phase == phase, stage_time.c.stage == stage)
    return (ObservedStage._make(row) for row in in_batches(conn.execute(statement)))


def recoveries(
    conn: Connection, project_id: int, span: Span, only: Jobs = None
) -> Iterator[ObservedRecovery]:
    """Yield the recoveries after a failure that ended in the span."""
    ended_us = recovery.c.started_us + recovery.c.us
    statement: Select[Any] = select(
        recovery.c.job, recovery.c.resumed, ended_us, recovery.c.us
    ).where(
        recovery.c.project_id == project_id,
        *_of_jobs(recovery, only),
        recovery.c.resumed.is_not(None),
        recovery.c.outcome.in_(sorted(FAILURES)),
        ended_us >= span[0],
        ended_us < span[1],
    )
    return (ObservedRecovery._make(row) for row in in_batches(conn.execute(statement)))


def segments(
    conn: Connection,
    project_id: int,
    span: Span,
    categories: frozenset[Category],
    only: Jobs = None,
) -> Iterator[ObservedSegment]:
    """Yield the closed segments of these attempts that ended in the span."""
    inside = and_(
        segment.c.project_id == attempt_ledger.c.project_id,
        segment.c.job == attempt_ledger.c.job,
        segment.c.number == attempt_ledger.c.number,
        segment.c.started_us >= attempt_ledger.c.started_us,
        segment.c.started_us < attempt_ledger.c.ended_us,
    )
    is_open = and_(
        attempt_ledger.c.outcome == Outcome.RUNNING.value,
        segment.c.ended_us == attempt_ledger.c.ended_us,
    )
    statement: Select[Any] = (
        select(*(segment.c[name] for name in ("job", "number", "category")),
               segment.c.started_us, segment.c.ended_us)
        .join_from(attempt_ledger, segment, inside)
        .where(
            *_lived_in(attempt_ledger, project_id, span, only),
            segment.c.category.in_(sorted(categories)),
            segment.c.ended_us >= span[0],
            segment.c.ended_us < span[1],
            ~is_open,
        )
    )  # fmt: skip
    return (ObservedSegment._make(row) for row in in_batches(conn.execute(statement)))


class ObservedWait(NamedTuple):
    """A stretch of a job's time between two of its attempts, or after the last."""

    job: str
    started_us: int
    ended_us: int

    @property
    def us(self) -> int:
        """Its length."""
        return self.ended_us - self.started_us


def waits(
    conn: Connection, project_id: int, span: Span, only: Jobs = None
) -> Iterator[ObservedWait]:
    """Yield the waits of no attempt that ended in the span, in order of job and time."""
    statement: Select[Any] = (
        select(*(segment.c[name] for name in ObservedWait._fields))
        .where(
            segment.c.project_id == project_id,
            *_of_jobs(segment, only),
            segment.c.number.is_(None),
            segment.c.category == Category.RESTART_WAIT.value,
            segment.c.ended_us >= span[0],
            segment.c.ended_us <= span[1],
        )
        .order_by(segment.c.job, segment.c.started_us)
    )
    return (ObservedWait._make(row) for row in in_batches(conn.execute(statement)))


def labels(
    conn: Connection, project_id: int, jobs: Collection[str]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the labels of each of the *jobs* that there are."""
    names = sorted(jobs)
    for start in range(0, len(names), _JOBS_PER_QUERY):
        statement: Select[Any] = select(job_ledger.c.job, job_ledger.c.answer).where(
            job_ledger.c.project_id == project_id,
            job_ledger.c.job.in_(names[start : start + _JOBS_PER_QUERY]),
        )
        for job, answer in conn.execute(statement):
            yield job, _job_result(answer).facts.labels


def open_segments(
    conn: Connection, project_id: int, at_us: int, only: Jobs = None
) -> Iterator[ObservedSegment]:
    """Yield the segment that each attempt was in at an instant; ends are those known now."""
    runs = attempt_ledger.c.outcome == Outcome.RUNNING.value
    goes_on = and_(runs, segment.c.ended_us == attempt_ledger.c.ended_us)
    around = and_(
        segment.c.project_id == attempt_ledger.c.project_id,
        segment.c.job == attempt_ledger.c.job,
        segment.c.number == attempt_ledger.c.number,
        segment.c.started_us <= at_us,
        or_(segment.c.ended_us > at_us, goes_on),
    )
    statement: Select[Any] = (
        select(*(segment.c[name] for name in ObservedSegment._fields))
        .join_from(attempt_ledger, segment, around)
        .where(
            attempt_ledger.c.project_id == project_id,
            *_of_jobs(attempt_ledger, only),
            attempt_ledger.c.started_us <= at_us,
            or_(attempt_ledger.c.ended_us > at_us, runs),
        )
        .order_by(segment.c.started_us, segment.c.job)
    )
    return (ObservedSegment._make(row) for row in in_batches(conn.execute(statement)))


def exclusions(conn: Connection, project_id: int) -> dict[str, list[Exclusion]]:
    """Read what was excluded from the fleet's numbers, by job."""
    statement: Select[Any] = select(correction.c.job, correction.c.from_us, correction.c.to_us)
    by_job: dict[str, list[Exclusion]] = {}
    for job, from_us, to_us in conn.execute(
        statement.where(
            correction.c.project_id == project_id,
            correction.c.kind == EXCLUSION,
            correction.c.taken_back_us.is_(None),
        )
    ):
        by_job.setdefault(job, []).append(Exclusion(from_us, to_us))
    return by_job


def _of_jobs(table: Table, only: Jobs) -> tuple[Any, ...]:
    """Keep to a few jobs; of more than a few all are read, and who asks leaves out the others."""
    return () if only is None or len(only) > _FEW_JOBS else (table.c.job.in_(sorted(only)),)


def _lived_in(table: Table, project_id: int, span: Span, only: Jobs) -> tuple[Any, ...]:
    few = _of_jobs(table, only)
    # Of a few jobs SQLite would still read all of the span: an expression has no index.
    started_us, ended_us = (
        table.c[name] + literal_column("0") if few else table.c[name]
        for name in ("started_us", "ended_us")
    )
    return (table.c.project_id == project_id, *few, ended_us >= span[0], started_us < span[1])


def _of_the_attempt(table: Any) -> Any:
    return and_(
        table.c.project_id == attempt_ledger.c.project_id,
        table.c.job == attempt_ledger.c.job,
        table.c.number == attempt_ledger.c.number,
    )
