"""Attempts that ended preempted in a window, what that cost, and in whose favour it was."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy import cast as sql_cast

from ett_service.core.dimensions import JOB_COLUMNS
from ett_service.core.fleet.owned_time import MOST_ACCELERATORS, size_of
from ett_service.core.fleet.totals import Loss, PreemptionOrder
from ett_service.core.words import Outcome
from ett_service.storage.fleet.rollups import (
    STATEMENTS,
    CohortFilter,
    RollupPlace,
    Span,
    of_projects,
    start_of,
)
from ett_service.storage.schema import attempt_ledger, correction, job_ledger, project, recovery
from ett_service.storage.schema.record import EXCLUSION
from ett_service.storage.schema.view_expressions import json_member

_GAVE_UP = frozenset({Outcome.FAILED, Outcome.LOST})

_preempted = attempt_ledger.alias("preempted")


def losses(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    group_by: Sequence[str] = (),
    step: int | None = None,
) -> dict[tuple[RollupPlace, PreemptionOrder], Loss]:
    """Add up what was lost to preemptions that ended an attempt in the window.

    The loss is the attempt's unsaved time and the recovery that followed it, times its
    accelerators. It is of second order if the job in ``preempted_by`` was coming back after a
    failure: of its attempts that had begun by then, the last had ended `failed` or `lost`, or
    came after one that did. Places are those of ``rollups.totals``.
    """
    statement = _made_room(cohort_filter, tuple(group_by), step)
    width = len(group_by) + (step is not None)
    parameters = {"from_us": window[0], "to_us": window[1]}
    favoured = _Favoured(conn.execute(_in_whose_favour(cohort_filter), parameters))
    by_place: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * len(Loss._fields))
    for row in map(tuple, conn.execute(statement, parameters)):
        project_id, job, ended_us, accelerators, unsaved_us, recovered_us = row[width:]
        sums = by_place[*row[:width], favoured.order(project_id, job, ended_us)]
        sums[0] += 1
        sums[1] += unsaved_us * accelerators
        sums[2] += recovered_us * accelerators
        sums[3] += accelerators == 0
    return {
        ((None if step is None else labels.pop(), tuple(labels)), order): Loss(*sums)
        for (*labels, order), sums in by_place.items()
    }


@lru_cache(STATEMENTS)
def _made_room(
    cohort_filter: CohortFilter, group_by: tuple[str, ...], step: int | None
) -> Select[*tuple[Any, ...]]:
    """Select the attempts that ended preempted, of any window; 0 for unknown accelerators.

    Making the statement takes longer than the database does.
    """
    keys: list[ColumnElement[Any]] = [_label(name) for name in group_by]
    if step is not None:
        keys.append(start_of(_preempted.c.ended_us, step))
    is_known = _preempted.c.gpus.between(1, MOST_ACCELERATORS)
    of_its_job = and_(
        job_ledger.c.project_id == _preempted.c.project_id, job_ledger.c.job == _preempted.c.job
    )
    return (
        select(
            *keys,
            *(_preempted.c[name] for name in ("project_id", "preempted_by", "ended_us")),
            case((is_known, _preempted.c.gpus), else_=0),
            _preempted.c.unsaved_us,
            _recovered_us(),
        )
        .join_from(_preempted, job_ledger, of_its_job)
        .join(project, project.c.id == _preempted.c.project_id)
        .where(*_conditions(cohort_filter))
    )


def _in_window() -> Iterator[ColumnElement[bool]]:
    yield _preempted.c.outcome == literal_column(f"'{Outcome.PREEMPTED}'")  # as in its index
    yield _preempted.c.ended_us >= bindparam("from_us")
    yield _preempted.c.ended_us < bindparam("to_us")


def _conditions(cohort_filter: CohortFilter) -> Iterator[ColumnElement[bool]]:
    yield from _in_window()
    yield of_projects(_preempted.c.project_id, cohort_filter)
    for name, values in sorted(cohort_filter.where.items()):
        yield _label(name).in_(sorted(values))
    if not cohort_filter.exclusions:
        yield ~_excluded()


def _label(name: str) -> ColumnElement[str]:
    """Return a label of the cohort in which the end of the attempt lies."""
    if name in ("other", "excluded"):
        return literal("")
    if name == "project":
        return project.c.name
    if name == "size":
        return _size(_preempted.c.gpus)
    if name not in JOB_COLUMNS:
        return func.coalesce(json_member(job_ledger.c.answer, "facts", name), "")
    table = _preempted if name == "code_version" else job_ledger
    return func.coalesce(table.c[name], "")


def _size(accelerators: ColumnElement[int]) -> ColumnElement[str]:
    buckets = [
        (accelerators < 2 << bits, size_of(1 << bits))
        for bits in range(MOST_ACCELERATORS.bit_length())
    ]
    countable = accelerators.between(1, MOST_ACCELERATORS)
    return case((countable, case(*buckets)), else_="")


def _recovered_us() -> ColumnElement[int]:
    of_it = select(func.sum(recovery.c.us)).where(
        recovery.c.project_id == _preempted.c.project_id,
        recovery.c.job == _preempted.c.job,
        recovery.c.interrupted == _preempted.c.number,
    )
    return func.coalesce(sql_cast(of_it.scalar_subquery(), BigInteger), 0)


def _excluded() -> ColumnElement[bool]:
    ended = _preempted.c.ended_us
    return exists().where(
        correction.c.project_id == _preempted.c.project_id,
        correction.c.job == _preempted.c.job,
        correction.c.kind == EXCLUSION,
        correction.c.taken_back_us.is_(None),
        or_(correction.c.from_us.is_(None), correction.c.from_us <= ended),
        or_(correction.c.to_us.is_(None), correction.c.to_us > ended),
    )


@lru_cache(STATEMENTS)
def _in_whose_favour(cohort_filter: CohortFilter) -> Select[Any]:
    """Select the attempts of those jobs.

    They are read apart from the attempts that made room: on Citus they lie on other nodes, where a
    subquery cannot look for them row by row. They are joined, as SQLite would look at the attempts
    of every job to find pairs in a list.
    """
    attempt = attempt_ledger.c
    favoured = (
        select(_preempted.c.project_id, _preempted.c.preempted_by)
        .where(
            *_in_window(),
            of_projects(_preempted.c.project_id, cohort_filter),
            _preempted.c.preempted_by.is_not(None),
        )
        .distinct()
        .cte("favoured")
    )
    columns = ("project_id", "job", "started_us", "number", "ended_us", "outcome")
    return (
        select(*(attempt[name] for name in columns))
        .join_from(
            favoured,
            attempt_ledger,
            and_(
                attempt.project_id == favoured.c.project_id,
                attempt.job == favoured.c.preempted_by,
            ),
        )
        .where(attempt.started_us < bindparam("to_us"))
    )


class _Favoured:
    """Why attempts had to make room, by what the jobs in whose favour it was had begun by then."""

    def __init__(self, rows: Iterable[Row[*tuple[Any, ...]]]) -> None:
        """*rows* are those of :func:`_in_whose_favour`."""
        #: When each attempt of a job began, its number, when it ended, and how.
        self._begun = defaultdict[tuple[int, str], list[tuple[int, int, int, str]]](list)
        for project_id, job, began_us, number, ended_us, outcome in map(tuple, rows):
            self._begun[project_id, job].append((began_us, number, ended_us, outcome))
        for attempts in self._begun.values():
            attempts.sort()

    def order(self, project_id: int, job: str | None, ended_us: int) -> PreemptionOrder:
        """Return why an attempt made room that ended then, preempted by the job."""
        begun = self._begun.get((project_id, job or ""), [])
        place = bisect_left(begun, (ended_us + 1,))
        if not place:
            return PreemptionOrder.UNKNOWN
        _, number, last_ended_us, last_outcome = begun[place - 1]
        before = (outcome for _, each, _, outcome in begun if each == number - 1)
        if next(before, None) in _GAVE_UP or (
            last_ended_us <= ended_us and last_outcome in _GAVE_UP
        ):
            return PreemptionOrder.SECOND
        return PreemptionOrder.FIRST
