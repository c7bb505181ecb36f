"""What folds add to the rollups, appended beside their jobs, and merged later.

A fold that added to the rollups itself would hold the rows of the present hour until its commit,
and all other folds would wait for them. So it appends one row of its own, and a merger takes many
such rows at once. Amounts are integers: their order says nothing, and each is added once, as the
transaction that adds it deletes its row.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Executable, Row, bindparam, delete, select, tuple_

from ett_service.core.fleet.measures import MEASURES
from ett_service.storage.engine import statements
from ett_service.storage.engine.trips import begin_last_trip
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.fleet.rollup_deltas import Additions, CohortDay, Sums, Tallies, day_of
from ett_service.storage.record.dirty_marks import JobBatch, of_jobs
from ett_service.storage.record.slots import in_slots
from ett_service.storage.schema import cohort, unmerged

AT_ONCE = 100
"""Folds that are merged in one transaction; a first fold of two months has 600 KB."""

_BITS = 63

_Cells: TypeAlias = list[tuple[int, int, dict[str, int], dict[str, dict[int, tuple[int, int]]]]]

_encode = msgspec.json.Encoder().encode
_decode: Callable[[str], _Cells] = msgspec.json.Decoder(_Cells).decode


class UnmergedCell(NamedTuple):
    """What is to be added to an hour of a cohort, and taken from it where it is negative."""

    hour_us: int
    cohort_id: int  #: the true one, whether or not it has rollups of its own
    sums: Sums
    tallies: Tallies


def append(conn: Connection, project_id: int, job: str, added: Additions, marked_us: int) -> None:
    """Append what a fold of the job adds; *marked_us* is when the oldest fact in it came in."""
    cells = [
        (hour_us, cohort_id, _nonzero(sums), tallies)
        for (hour_us, cohort_id), sums, tallies in added.cells()
    ]
    if cells:
        row = (project_id, job, secrets.randbits(_BITS), marked_us, _encode(cells).decode())
        statements.put(conn, unmerged, ("marked_us", "cells"), [row])


def decoded(cells: str) -> Iterator[UnmergedCell]:
    """Read what a fold added."""
    for hour_us, cohort_id, sums, tallies in _decode(cells):
        amounts = tuple([sums.get(name, 0) for name in MEASURES])
        yield UnmergedCell(hour_us, cohort_id, amounts, tallies)


def of_project(conn: Connection, project_id: int) -> Iterator[UnmergedCell]:
    """Read all that waits to be merged of a project."""
    for cells in conn.scalars(_OF_PROJECT, {"project_id": project_id}):
        yield from decoded(cells)


def merge(conn: Connection, slots: Collection[int] | None = None) -> int:
    """Take up to ``AT_ONCE`` folds of jobs in *slots*, or of all, into the rollups.

    Return how many those were. What another merger is at is left to it. *conn* reads no more; its
    writes are sent with the commit.
    """
    parameters: dict[str, Any] = {"most": AT_ONCE}
    if slots is not None:
        parameters["slots"] = sorted(slots)
    taken = conn.execute(_taking(in_some=slots is not None), parameters).all()
    additions = _added_up(conn, taken)
    begin_last_trip(conn)
    _write(conn, additions)
    return len(taken)


def merge_jobs(conn: Connection, batch: JobBatch) -> None:
    """Take all folds of these jobs into the rollups."""
    _write(conn, _added_up(conn, conn.execute(_TAKE_OF_JOBS, batch.parameters()).all()))


_OF_PROJECT = select(unmerged.c.cells).where(unmerged.c.project_id == bindparam("project_id"))
_TAKEN = (unmerged.c.project_id, unmerged.c.cells)
_TAKE_OF_JOBS = delete(unmerged).where(*of_jobs(unmerged)).returning(*_TAKEN)
_EXCLUDED = select(cohort.c.id, cohort.c.excluded).where(
    cohort.c.id.in_(bindparam("cohorts", expanding=True))
)


@cache
def _taking(*, in_some: bool) -> Executable:
    keys = tuple(unmerged.primary_key)
    # Not waited for: who holds a row is about to delete it.
    chosen = select(*keys).limit(bindparam("most")).with_for_update(skip_locked=True)
    if in_some:
        chosen = chosen.where(in_slots(unmerged))
    return delete(unmerged).where(tuple_(*keys).in_(chosen)).returning(*_TAKEN)


def _added_up(conn: Connection, taken: Sequence[Row[*tuple[Any, ...]]]) -> Mapping[int, Additions]:
    """Add up what folds added, by project, as the rollups have it."""
    by_project: defaultdict[int, list[UnmergedCell]] = defaultdict(list)
    for project_id, cells in taken:
        by_project[project_id] += decoded(cells)
    return {
        project_id: _merged(conn, project_id, of_folds)
        for project_id, of_folds in sorted(by_project.items())
    }


def _write(conn: Connection, by_project: Mapping[int, Additions]) -> None:
    for project_id, additions in by_project.items():
        additions.write(conn, project_id)


def _merged(conn: Connection, project_id: int, cells: Sequence[UnmergedCell]) -> Additions:
    """Add up cells as the rollups have them, where some cohorts are in ``other``."""
    gathered = Additions()
    for cell in cells:
        gathered.put(*cell)
    days = {(day_of(hour_us), cohort_id) for (hour_us, cohort_id), _, _ in gathered.cells()}
    other = _others(conn, project_id, rollup_deltas.hold(conn, project_id, days))
    if not other:
        return gathered
    additions = Additions()
    for (hour_us, cohort_id), sums, tallies in gathered.cells():
        rolled_up_as = other.get((day_of(hour_us), cohort_id), cohort_id)
        additions.put(hour_us, rolled_up_as, sums, tallies)
    return additions


def _others(
    conn: Connection, project_id: int, is_kept: Mapping[CohortDay, bool]
) -> dict[CohortDay, int]:
    """Return where those cohorts go that keep no rollups of their own on a day."""
    left = [day for day, kept in is_kept.items() if not kept]
    if not left:
        return {}
    rows = conn.execute(_EXCLUDED, {"cohorts": {cohort_id for _, cohort_id in left}})
    excluded = {cohort_id: bool(flag) for cohort_id, flag in map(tuple, rows)}
    other = cache(partial(_other, conn, project_id))
    return {(day_us, cohort_id): other(excluded[cohort_id]) for day_us, cohort_id in left}


def _other(conn: Connection, project_id: int, excluded: bool) -> int:
    return rollup_deltas.other(conn, project_id, excluded=excluded)


def _nonzero(sums: Iterable[int]) -> dict[str, int]:
    return {name: amount for name, amount in zip(MEASURES, sums, strict=True) if amount}
