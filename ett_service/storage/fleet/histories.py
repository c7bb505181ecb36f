"""Ledgers and checkpoint intervals of many jobs, read some hundred at a time."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, Select, Subquery, and_, bindparam, func, select

from ett_service.core.events import Exclusion
from ett_service.core.intervals import HOUR_US
from ett_service.core.ledger.results import AttemptLedger, JobLedger, Recovery, Segment
from ett_service.core.words import CATEGORY_BY_NAME, PERIOD_BY_NAME
from ett_service.storage import schema
from ett_service.storage.engine.driver import in_batches
from ett_service.storage.fleet.rollups import (
    CohortFilter,
    Group,
    Span,
    contributed,
    label,
    of_projects,
    start_of,
)
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import checkpoint, contribution
from ett_service.storage.schema.record import EXCLUSION

T = TypeVar("T")

_AT_ONCE = 200  #: jobs in one IN list

_decode_ledger = msgspec.json.Decoder(JobLedger).decode
_decode_attempt = msgspec.json.Decoder(AttemptLedger).decode
_decode_recovery = msgspec.json.Decoder(Recovery).decode


class JobHistory(NamedTuple):
    """A job's stored ledger with its segments, but without its sums, and what is excluded."""

    key: JobKey
    ledger: JobLedger
    exclusions: tuple[Exclusion, ...]


def histories(conn: Connection, keys: Iterable[JobKey]) -> Iterator[JobHistory]:
    """Read histories in the order of *keys*, which come by project; skip jobs without one."""
    for project_id, of_project in groupby(keys, key=lambda key: key.project_id):
        jobs = [key.job for key in of_project]
        for start in range(0, len(jobs), _AT_ONCE):
            yield from _some(conn, project_id, jobs[start : start + _AT_ONCE])


def _some(conn: Connection, project_id: int, jobs: Sequence[str]) -> Iterator[JobHistory]:
    parameters = {"project_id": project_id, "jobs": jobs}
    stored = conn.execute(_LEDGERS, parameters).all()
    ledgers = {job: _decode_ledger(text) for job, text in stored}
    attempts, recoveries, exclusions = (
        _by_job(conn, statement, parameters) for statement in (_ATTEMPTS, _RECOVERIES, _EXCLUSIONS)
    )
    segments = _segments(conn, parameters)
    for job in jobs:
        if job in ledgers:
            ledger = dataclasses.replace(
                ledgers[job],
                attempts=tuple(_decode_attempt(text) for (text,) in attempts[job]),
                recoveries=tuple(_decode_recovery(text) for (text,) in recoveries[job]),
                segments=tuple(segments[job]),
            )
            left_out = tuple(Exclusion(*row) for row in exclusions[job])
            yield JobHistory(JobKey(project_id, job), ledger, left_out)


def _segments(conn: Connection, parameters: dict[str, Any]) -> dict[str, list[Segment]]:
    by_job: dict[str, list[Segment]] = defaultdict(list)
    for job, start, end, category, period, number in conn.execute(_SEGMENTS, parameters).all():
        columns = (start, end, CATEGORY_BY_NAME[category], PERIOD_BY_NAME[period], number)
        by_job[job].append(Segment._make(columns))
    return by_job


def _by_job(
    conn: Connection, statement: Select[Any], parameters: dict[str, Any]
) -> dict[str, list[tuple[Any, ...]]]:
    by_job: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in conn.execute(statement, parameters).all():
        by_job[row[0]].append(row[1:])
    return by_job


def _of_jobs(table: Any, *names: str) -> Select[Any]:
    return select(table.c.job, *(table.c[name] for name in names)).where(
        table.c.project_id == bindparam("project_id"),
        table.c.job.in_(bindparam("jobs", expanding=True)),
    )


_LEDGERS = _of_jobs(schema.job_ledger, "answer")
_ATTEMPTS = _of_jobs(schema.attempt_ledger, "answer").order_by(schema.attempt_ledger.c.number)
_RECOVERIES = _of_jobs(schema.recovery, "answer").order_by(
    schema.recovery.c.started_us, schema.recovery.c.interrupted
)
_SEGMENTS = _of_jobs(
    schema.segment, "started_us", "ended_us", "category", "period", "number"
).order_by(schema.segment.c.job, schema.segment.c.started_us)
_EXCLUSIONS = _of_jobs(schema.correction, "from_us", "to_us").where(
    schema.correction.c.kind == EXCLUSION, schema.correction.c.taken_back_us.is_(None)
)


MOST_GAPS = 5_000


def cohort_gaps(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    group_by: Sequence[str] = (),
    most: int = MOST_GAPS,
) -> Mapping[Group, list[int]]:
    """Read those of the checkpoints saved in *window*, the latest *most* of all, by group.

    A checkpoint belongs to the cohorts to which its job adds in its hour.
    """
    gaps = _gaps(cohort_filter, window)
    keys = [label(name).label(f"key_{place}") for place, name in enumerate(group_by)]
    in_its_hour = and_(
        contribution.c.project_id == gaps.c.project_id,
        contribution.c.job == gaps.c.job,
        contribution.c.hour_us == start_of(gaps.c.saved_us, HOUR_US),
    )
    # Distinct, since a job may add to several cohorts of a group in an hour.
    statement = (
        contributed([*gaps.c, *keys], cohort_filter)
        .distinct()
        .join(gaps, in_its_hour)
        .where(gaps.c.gap_us > 0)
        .order_by(gaps.c.saved_us.desc())
        .limit(most)
    )
    by_group: defaultdict[Group, list[int]] = defaultdict(list)
    for _, _, _, gap_us, *labels in in_batches(conn.execute(statement)):
        by_group[tuple(labels)].append(gap_us)
    return by_group


def _gaps(cohort_filter: CohortFilter, window: Span) -> Subquery:
    columns = checkpoint.c
    before = func.lag(columns.saved_us).over(
        partition_by=[columns.project_id, columns.job, columns.number], order_by=columns.saved_us
    )
    return (
        select(
            columns.project_id,
            columns.job,
            columns.saved_us,
            (columns.saved_us - before).label("gap_us"),
        )
        .where(
            of_projects(columns.project_id, cohort_filter),
            columns.saved_us >= window[0],
            columns.saved_us < window[1],
        )
        .subquery()
    )
