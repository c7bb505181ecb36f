"""Samples of the jobs that lived in a window: the same for every reader, and of bounded work.

Up to ``MOST_LISTED`` jobs are listed and drawn from. Of more than that even a list takes seconds:
short slices of time are drawn instead, as many from each stretch of the window, and the jobs that
ended in them are read in the order of an index. Each job has the same chance either way.
"""

import heapq
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    BigInteger,
    Connection,
    FromClause,
    Select,
    and_,
    bindparam,
    exists,
    func,
    select,
)
from sqlalchemy.dialects import postgresql

from ett_service.core.dimensions import JOB_DIMENSIONS
from ett_service.core.fleet.totals import Totals
from ett_service.storage.fleet import hours, rollups
from ett_service.storage.fleet.rollups import (
    JOBS,
    CohortFilter,
    Span,
    conditions,
    contributed,
    of_projects,
)
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import cohort, contribution, job_ledger, project

MOST_READ = 2_500
"""So many jobs are read whole."""

DRAWN = 1_000
"""How many are drawn of more: tests by ranks and bootstraps gain little from the rest."""

MOST_LISTED = 5_000
"""How many jobs are listed to draw from."""

SLICES = 400
"""Into so many stretches a window is cut, and of each one slice is read."""

_SEED = 20_261_124


class Sample(NamedTuple):
    """Jobs in order of project and name, and of how many they were drawn."""

    keys: list[JobKey]
    drawn_from: int


def jobs_alive(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    most: int = MOST_READ,
    drawn: int = DRAWN,
    most_listed: int = MOST_LISTED,
) -> Sample:
    """Return the jobs that have time in the window and in a wanted cohort; of over *most*, some.

    The window is on full hours. Up to *drawn* are drawn then, each job with the same chance, and
    the same jobs give the same sample. Of more than *most_listed* the sample may be smaller, and
    how many there are is as the rollups count them.
    """
    drawn = min(most, drawn)
    counted = count_alive(conn, cohort_filter, window)
    if counted <= max(most, most_listed):
        alive = conn.execute(_with_time(cohort_filter, window)).all()
        listed = [JobKey(*row) for row in alive]
        return Sample(_drawn(listed, drawn if len(listed) > most else most), len(listed))
    ended = conn.scalar(
        select(func.max(job_ledger.c.ended_us)).where(
            of_projects(job_ledger.c.project_id, cohort_filter)
        )
    )
    spans = slices(window, -(-counted // drawn))
    if ended is not None and ended >= window[1]:
        spans += slices((window[1], ended + 1), -(-counted // drawn))
    rows = conn.execute(
        _ended_in(conn.dialect.name, cohort_filter, window), _parameters(conn.dialect.name, spans)
    )
    keys = [JobKey(*row) for row in rows if row[1]]
    return Sample(_drawn(keys, drawn), counted)


def count_alive(conn: Connection, cohort_filter: CohortFilter, window: Span) -> int:
    """Count the jobs with time in the window; one of several cohorts counts in each of them.

    Where the hours at its ends are gone, those of the days count in which these lie.
    """
    kept = hours.widened(window, hours.kept_from(conn))
    by_place = rollups.totals(conn, cohort_filter, kept, measures=(), tallies=False)
    return by_place.get((None, ()), Totals.ZERO)[JOBS]


def _with_time(cohort_filter: CohortFilter, window: Span) -> Select[int, str]:
    """Select from the index of contributions by cohort and hour."""
    in_cohorts = select(cohort.c.id).join(project, project.c.id == cohort.c.project_id)
    return (
        select(contribution.c.project_id, contribution.c.job)
        .distinct()
        .where(
            of_projects(contribution.c.project_id, cohort_filter),
            contribution.c.cohort_id.in_(in_cohorts.where(*conditions(cohort_filter))),
            contribution.c.hour_us >= window[0],
            contribution.c.hour_us < window[1],
        )
    )


def slices(span: Span, one_in: int) -> list[Span]:
    """Draw one in *one_in* of the instants of a span, as slices that lie evenly in it.

    The same span gives the same slices. One shorter than its slices is taken whole.
    """
    start_us, end_us = span
    length = -(-(end_us - start_us) // (SLICES * one_in))
    places = np.random.default_rng([_SEED, one_in]).integers(0, one_in, SLICES)
    if one_in == 1 or length == 1:
        return [span]
    firsts = start_us + length * (np.arange(SLICES) * one_in + places)
    return [(int(at), min(int(at) + length, end_us)) for at in firsts if at < end_us]


def _ended_in(dialect: str, cohort_filter: CohortFilter, window: Span) -> Select[int, str]:
    spans, start_us, end_us = _SPANS[dialect]
    ledger = job_ledger.c
    wanted = and_(
        of_projects(ledger.project_id, cohort_filter),
        ledger.ended_us >= start_us,
        ledger.ended_us < end_us,
        ledger.started_us < window[1],
        *(
            func.coalesce(ledger[name], "").in_(sorted(cohort_filter.where[name]))
            for name in JOB_DIMENSIONS
            if name in cohort_filter.where
        ),
    )
    # An outer join is begun from the slices; SQLite would begin an inner one from all the jobs.
    ended = (
        select(ledger.project_id, ledger.job)
        .select_from(spans)
        .outerjoin(job_ledger, wanted)
        .subquery("ended")
    )
    # Apart from the slices: Citus would not look for them among rows of a function.
    adds = contributed([contribution.c.job], cohort_filter, window).where(
        contribution.c.project_id == ended.c.project_id, contribution.c.job == ended.c.job
    )
    return select(ended.c.project_id, ended.c.job).where(exists(adds))


def _parameters(dialect: str, spans: Sequence[Span]) -> Mapping[str, object]:
    if dialect == "sqlite":
        return {"spans": json.dumps(spans)}
    return dict(zip(_EDGES, map(list, zip(*spans, strict=True)), strict=True))


_EDGES = ("starts", "ends")


def _in_json() -> tuple[FromClause, Any, Any]:
    each = func.json_each(bindparam("spans")).table_valued("value")
    value = each.c.value
    return each, func.json_extract(value, "$[0]"), func.json_extract(value, "$[1]")


def _in_arrays() -> tuple[FromClause, Any, Any]:
    arrays = [bindparam(name, type_=postgresql.ARRAY(BigInteger)) for name in _EDGES]
    each = func.unnest(*arrays).table_valued("start_us", "end_us").render_derived()
    return each, each.c.start_us, each.c.end_us


_SPANS = {"sqlite": _in_json(), "postgresql": _in_arrays()}


def _drawn(keys: Iterable[JobKey], most: int) -> list[JobKey]:
    return sorted(heapq.nsmallest(most, keys, key=lambda key: (_place(key), key)))


def _place(key: JobKey) -> int:
    """Return where in a random order the job comes, the same for every reader."""
    return zlib.crc32(f"{key.project_id}/{key.job}".encode())
