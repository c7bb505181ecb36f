"""Durations that begin in a window, one by one: starts, recoveries, compiles, saves."""

from collections.abc import Callable, Collection, Iterator
from enum import StrEnum, auto
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Exists,
    Select,
    Table,
    and_,
    exists,
    func,
    literal,
    literal_column,
    select,
)

from ett_service.core.fleet.measures import WEIGHTED
from ett_service.core.intervals import HOUR_US
from ett_service.core.words import FAILURES, Category
from ett_service.storage.engine.driver import in_batches
from ett_service.storage.fleet.job_sums import is_among
from ett_service.storage.fleet.rollups import (
    CohortFilter,
    Span,
    conditions,
    contributed,
    in_wanted_cohorts,
    of_projects,
    start_of,
)
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import (
    attempt_ledger,
    cohort,
    contribution,
    job_ledger,
    project,
    recovery,
    segment,
)

Occurrence: TypeAlias = tuple[int, str, int, int]
"""Project, job, when it began, and how long it took, in microseconds."""


class Kind(StrEnum):
    """What is measured."""

    TIME_TO_START = auto()  #: of jobs that begin
    TIME_TO_RECOVER = auto()  #: of recoveries that begin, after a failure, once they are over
    PT2_COMPILE = auto()  #: of attempts that begin, compile and reach a loop, before that loop
    CHECKPOINT_BLOCKING = auto()  #: of attempts that begin: the mean of their stops for a save


TimeOfAnHour: TypeAlias = tuple[int, str, int, int, int, int]
"""Project, job, the start of the hour, the cohort; effective time and all, times accelerators."""


class _Compiled(msgspec.Struct):
    """What of an attempt's answer is looked at."""

    categories_us: dict[str, int]
    loop_started_at: int | None = None


_decode_compiled = msgspec.json.Decoder(_Compiled).decode


JobKeys: TypeAlias = Collection[JobKey] | None
"""The jobs that are wanted, some thousands at most; None for all."""


def occurrences(
    conn: Connection, cohort_filter: CohortFilter, kind: Kind, window: Span, only: JobKeys = None
) -> Iterator[Occurrence]:
    """Read those of a kind that began in the window, in a wanted cohort; a job's come together."""
    return _READERS[kind](conn, cohort_filter, window, only)


def hourly_ett(
    conn: Connection, cohort_filter: CohortFilter, window: Span, only: JobKeys = None
) -> Iterator[TimeOfAnHour]:
    """Read what each job spent in the wanted cohorts, by hour, in a window of full hours.

    They come in no order; a job of several cohorts has several an hour.
    """
    weighted: ColumnElement[Any] = sum(
        (contribution.c[name] for name in WEIGHTED.categories.values()), literal(0)
    )
    effective = contribution.c[WEIGHTED.categories[Category.EFFECTIVE_TRAINING]]
    of = contribution.c
    columns = [of.project_id, of.job, of.hour_us, of.cohort_id, effective, weighted]
    statement = (
        in_wanted_cohorts(columns, cohort_filter, window)
        if only is None
        else contributed(columns, cohort_filter, window).where(is_among(contribution, only))
    )
    return in_batches(conn.execute(statement))


def cohort_ids(conn: Connection, cohort_filter: CohortFilter) -> list[int]:
    """Return the ids of the wanted cohorts."""
    in_projects = select(cohort.c.id).join(project, project.c.id == cohort.c.project_id)
    return list(conn.scalars(in_projects.where(*conditions(cohort_filter))))


def _starts(
    conn: Connection, cohort_filter: CohortFilter, window: Span, only: JobKeys
) -> Iterator[Occurrence]:
    statement = _begun(job_ledger, cohort_filter, window, only, job_ledger.c.time_to_start_us)
    began = conn.execute(statement.where(job_ledger.c.time_to_start_us.is_not(None)))
    return in_batches(began)


def _recoveries(
    conn: Connection, cohort_filter: CohortFilter, window: Span, only: JobKeys
) -> Iterator[Occurrence]:
    statement = _begun(recovery, cohort_filter, window, only, recovery.c.us).where(
        recovery.c.resumed.is_not(None), recovery.c.outcome.in_(sorted(FAILURES))
    )
    return in_batches(conn.execute(statement))


def _compiles(
    conn: Connection, cohort_filter: CohortFilter, window: Span, only: JobKeys
) -> Iterator[Occurrence]:
    statement = _attempts(cohort_filter, window, only, attempt_ledger.c.answer)
    for project_id, job, at, answer in in_batches(conn.execute(statement)):
        attempt = _decode_compiled(answer)
        us = attempt.categories_us.get(Category.PT2_COMPILE, 0)
        if us and attempt.loop_started_at is not None:
            yield project_id, job, at, us


def _saves(
    conn: Connection, cohort_filter: CohortFilter, window: Span, only: JobKeys
) -> Iterator[Occurrence]:
    stops = and_(
        segment.c.project_id == attempt_ledger.c.project_id,
        segment.c.job == attempt_ledger.c.job,
        segment.c.number == attempt_ledger.c.number,
        segment.c.started_us >= attempt_ledger.c.started_us,  # rows of a job lie in their order
        segment.c.started_us < attempt_ledger.c.ended_us,
        segment.c.category == Category.CHECKPOINT_BLOCKING.value,
    )
    lengths = func.sum(segment.c.ended_us - segment.c.started_us)
    statement = _attempts(cohort_filter, window, only, lengths, func.count()).join(segment, stops)
    of_attempt = (*list(attempt_ledger.primary_key)[:3], attempt_ledger.c.started_us)
    saved = conn.execute(statement.group_by(*of_attempt))
    for project_id, job, at, us, count in in_batches(saved):
        yield project_id, job, at, round(us / count)


def _attempts(
    cohort_filter: CohortFilter, window: Span, only: JobKeys, *columns: ColumnElement[Any]
) -> Select[Any]:
    statement = _begun(attempt_ledger, cohort_filter, window, only, *columns)
    if only is not None:
        return statement
    # What began in the window did not end before it: attempts are indexed by their end.
    return statement.where(attempt_ledger.c.ended_us >= window[0])


def _begun(
    table: Table,
    cohort_filter: CohortFilter,
    window: Span,
    only: JobKeys,
    *columns: ColumnElement[Any],
) -> Select[Any]:
    """Select the *columns* of what began in the window and in a wanted cohort."""
    of = table.c
    # Of some jobs SQLite would still read all of the window: an expression has no index.
    began_us = of.started_us if only is None else of.started_us + literal_column("0")
    statement = (
        select(of.project_id, of.job, of.started_us, *columns)
        .where(
            of_projects(of.project_id, cohort_filter),
            began_us >= window[0],
            began_us < window[1],
            _is_in_cohorts(table, cohort_filter),
        )
        .order_by(of.project_id, of.job, of.started_us)
    )
    return statement if only is None else statement.where(is_among(table, only))


def _is_in_cohorts(table: Table, cohort_filter: CohortFilter) -> Exists:
    """Whether the job has time in a wanted cohort in the hour in which the row's began."""
    return exists(
        contributed([contribution.c.job], cohort_filter).where(
            contribution.c.project_id == table.c.project_id,
            contribution.c.job == table.c.job,
            contribution.c.hour_us == start_of(table.c.started_us, HOUR_US),
        )
    )


_READERS: dict[Kind, Callable[[Connection, CohortFilter, Span, JobKeys], Iterator[Occurrence]]] = {
    Kind.TIME_TO_START: _starts,
    Kind.TIME_TO_RECOVER: _recoveries,
    Kind.PT2_COMPILE: _compiles,
    Kind.CHECKPOINT_BLOCKING: _saves,
}
