"""Rollup deltas: what is added to the sums by hour and by day, and for which cohorts.

A fold that added to the rollups itself would hold the rows of the present hour until its commit,
and all other folds would wait for them. So it appends one row of its own, and a merger takes many
such rows at once. Amounts are integers: their order says nothing, and each is added once, as the
transaction that adds it deletes its row.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import add, sub
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Delete, Executable, Row, Table, bindparam, delete, select, tuple_
from sqlalchemy.sql.dml import ReturningInsert

from ett_service.core.dimensions import DIMENSIONS, Cohort
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import DAY_US
from ett_service.storage import schema
from ett_service.storage.engine import statements
from ett_service.storage.engine.driver import begin_last_trip, read_together
from ett_service.storage.engine.lease import SLOTS, hold_free_slots, in_slots, wait_for_slots
from ett_service.storage.engine.statements import insert_new
from ett_service.storage.fleet import hours
from ett_service.storage.record.dirty_marks import JobBatch, of_jobs
from ett_service.storage.schema import cohort, cohort_day, unmerged
from ett_service.storage.schema.record import EVERY_HOUR

_KEY = ("project_id", *DIMENSIONS, "excluded", "other")
_FIND = select(cohort.c.id).where(*(cohort.c[name] == bindparam(name) for name in _KEY))

MERGED_AT_ONCE = 100
"""Folds that are merged in one transaction; a first fold of two months has 600 KB."""

_BITS = 63

_Cells: TypeAlias = list[tuple[int, int, dict[str, int], dict[str, dict[int, tuple[int, int]]]]]

_encode = msgspec.json.Encoder().encode
_decode: Callable[[str], _Cells] = msgspec.json.Decoder(_Cells).decode


def ids(conn: Connection, project_id: int, cohorts: Iterable[Cohort]) -> dict[Cohort, int]:
    """Return the ids of a project's cohorts; new ones are inserted, all in one round trip.

    That is done in order, so that two writers never wait for each other in a circle.
    """
    ordered = sorted(cohorts)
    keys = [{"project_id": project_id, **each._asdict(), "other": False} for each in ordered]
    return dict(zip(ordered, _ids(conn, keys), strict=True))


def other(conn: Connection, project_id: int, *, excluded: bool) -> int:
    """Return the id of the cohort that takes what the cap on a day's cohorts leaves over."""
    unknown = dict.fromkeys(DIMENSIONS, "")
    key = {"project_id": project_id, **unknown, "excluded": excluded, "other": True}
    return _ids(conn, [key])[0]


def _ids(conn: Connection, keys: Sequence[Mapping[str, Any]]) -> list[int]:
    # Looked for last: an insertion that another writer was first with waits for it.
    insertion = _insertion(conn.dialect.name)
    answers = read_together(conn, [(each, key) for key in keys for each in (insertion, _FIND)])
    return [found[0][0] for found in answers[1::2]]


@cache
def _insertion(dialect: str) -> ReturningInsert[Any]:
    """Insert a cohort unless it is there."""
    values: dict[str, Any] = {name: bindparam(name) for name in _KEY}
    inserted = statements.INSERTS[dialect](cohort).values(values).on_conflict_do_nothing()
    return inserted.returning(cohort.c.id)


CohortDay: TypeAlias = tuple[int, int]
"""The start of a day, in microseconds since the Unix epoch, and a cohort's id."""

CohortHour: TypeAlias = tuple[int, int]
"""Likewise of an hour."""

_AT_ONCE = 500  #: in one IN list

_of_days = (
    cohort_day.c.project_id == bindparam("project_id"),
    cohort_day.c.day_us.in_(bindparam("days", expanding=True)),
)
_HELD = (
    select(cohort_day.c.day_us, cohort_day.c.cohort_id, cohort_day.c.kept)
    .where(*_of_days, cohort_day.c.cohort_id.in_(bindparam("cohorts", expanding=True)))
    .order_by(cohort_day.c.day_us, cohort_day.c.cohort_id)
    .with_for_update(read=True)
)
_FULL = select(cohort_day.c.day_us).where(*_of_days, cohort_day.c.kept.is_(False)).distinct()


def hold(conn: Connection, project_id: int, days: Collection[CohortDay]) -> dict[CohortDay, bool]:
    """Return whether each keeps rows of its own, which stays so until the transaction ends.

    A cohort that is new to a day keeps its own, unless the day has others already that do not.
    """
    is_kept: dict[CohortDay, bool] = {}
    for piece in _pieces(sorted(days)):
        is_kept |= _held(conn, project_id, piece)
        if new := [day for day in piece if day not in is_kept]:
            _insert(conn, project_id, new)
            is_kept |= _held(conn, project_id, new)
    return {day: is_kept[day] for day in days}


def _held(conn: Connection, project_id: int, pairs: Sequence[CohortDay]) -> dict[CohortDay, bool]:
    days, cohorts = zip(*pairs, strict=True)
    parameters = {"project_id": project_id, "days": set(days), "cohorts": set(cohorts)}
    rows = conn.execute(_HELD, parameters)
    return {(day_us, cohort_id): bool(kept) for day_us, cohort_id, kept in rows}


def _insert(conn: Connection, project_id: int, new: Sequence[CohortDay]) -> None:
    of_days = {"project_id": project_id, "days": {day for day, _ in new}}
    full = set(conn.scalars(_FULL, of_days))
    rows: list[dict[str, Any]] = [
        {"project_id": project_id, "day_us": day, "cohort_id": cohort_id, "kept": day not in full}
        for day, cohort_id in new
    ]
    insert_new(conn, cohort_day, rows)


def _pieces(days: Sequence[CohortDay]) -> Iterator[Sequence[CohortDay]]:
    for start in range(0, len(days), _AT_ONCE):
        yield days[start : start + _AT_ONCE]


Sums: TypeAlias = Sequence[int]
"""One amount a measure, in the order of ``MEASURES``."""

Tallies: TypeAlias = Mapping[str, Mapping[int, tuple[int, int]]]
"""Counts and microseconds by name and place."""

DeltaKey: TypeAlias = tuple[Any, ...]
"""The primary key behind the project; it begins with the start of an hour or a day."""

Amounts: TypeAlias = dict[DeltaKey, Sums]

_NOTHING = (0,) * len(MEASURES)
MEASURES_OF: Mapping[Table, tuple[str, ...]] = {
    schema.rollup_hourly: MEASURES,
    schema.rollup_daily: MEASURES,
    schema.tally_hourly: ("count", "us"),
    schema.tally_daily: ("count", "us"),
}
"""The columns behind the primary key of each table of the rollups."""

#: A row in which it is 0 sums nothing, and is deleted.
_COUNTER_OF = {table: "cells" if "cells" in of else "count" for table, of in MEASURES_OF.items()}


def _emptied(table: Table) -> Delete:
    keys = [column == bindparam(column.name) for column in table.primary_key]
    return delete(table).where(*keys, table.c[_COUNTER_OF[table]] == 0)


_DROP_EMPTY = {table: _emptied(table) for table in MEASURES_OF}


class RollupDeltas:
    """Differences of a project's hours, gathered cell by cell and then added at once.

    Rows are written in the order of their keys, so that two writers never wait for each other in
    a circle; one that sums nothing any more is deleted.
    """

    def __init__(self) -> None:
        self._sums: Amounts = {}
        self._tallies: Amounts = {}

    def put(self, hour_at: int, cohort_id: int, sums: Sums, tallies: Tallies) -> None:
        """Add to an hour of a cohort."""
        self._change(add, (hour_at, cohort_id), sums, tallies)

    def take(self, hour_at: int, cohort_id: int, sums: Sums, tallies: Tallies) -> None:
        """Take out of an hour of a cohort."""
        self._change(sub, (hour_at, cohort_id), sums, tallies)

    def _change(
        self, by: Callable[[int, int], int], cell: CohortHour, sums: Sums, tallies: Tallies
    ) -> None:
        self._sums[cell] = tuple(map(by, self._sums.get(cell, _NOTHING), sums))
        for name, places in tallies.items():
            for place, (count, us) in places.items():
                at = (*cell, name, place)
                before = self._tallies.get(at, (0, 0))
                self._tallies[at] = (by(before[0], count), by(before[1], us))

    def cells(self) -> Iterator[tuple[CohortHour, Sums, Tallies]]:
        """Yield what was gathered by hour and cohort, without what is 0, in order."""
        tallies: defaultdict[DeltaKey, defaultdict[str, dict[int, tuple[int, int]]]]
        tallies = defaultdict(lambda: defaultdict(dict))
        for (hour_at, cohort_id, name, place), (count, us) in _not_0(self._tallies).items():
            tallies[hour_at, cohort_id][name][place] = (count, us)
        sums = _not_0(self._sums)
        for cell in sorted(sums.keys() | tallies.keys()):
            hour_at, cohort_id = cell
            yield (hour_at, cohort_id), sums.get(cell, _NOTHING), tallies.get(cell, {})

    def by_table(self, hourly_from_us: int) -> dict[Table, Amounts]:
        """Return what was gathered as the tables of the rollups have it, without what is 0.

        Of hours before *hourly_from_us*, the horizon, only the days do.
        """
        return {
            schema.rollup_hourly: _not_0(self._sums, hourly_from_us),
            schema.rollup_daily: _not_0(_by_day(self._sums)),
            schema.tally_hourly: _not_0(self._tallies, hourly_from_us),
            schema.tally_daily: _not_0(_by_day(self._tallies)),
        }


def write(conn: Connection, project_id: int, changes: Mapping[Table, Amounts]) -> None:
    """Add to the rows of the rollups, by the table's name and the row's key."""
    for table, amounts_at in changes.items():
        if amounts_at:
            _write(conn, table, project_id, sorted(amounts_at.items()))


def day_of(at_us: int) -> int:
    """Return the start of the day (UTC) in which an instant lies."""
    return at_us - at_us % DAY_US


def _by_day(hourly: Amounts) -> Amounts:
    daily: Amounts = {}
    for (start_at, *rest), amounts in hourly.items():
        key = (day_of(start_at), *rest)
        before = daily.get(key)
        daily[key] = amounts if before is None else tuple(map(add, before, amounts))
    return daily


def _not_0(gathered: Amounts, since_us: int = EVERY_HOUR) -> Amounts:
    return {key: each for key, each in gathered.items() if key[0] >= since_us and any(each)}


def _write(
    conn: Connection, table: Table, project_id: int, changes: Sequence[tuple[DeltaKey, Sums]]
) -> None:
    measures = MEASURES_OF[table]
    places: Sequence[int] = range(len(measures))
    if measures is MEASURES:
        places = statements.nonzero_places(amounts for _, amounts in changes)
    rows = [(project_id, *key, *[amounts[place] for place in places]) for key, amounts in changes]
    statements.add(conn, table, tuple([measures[place] for place in places]), rows)
    counter = measures.index(_COUNTER_OF[table])
    keys = [column.name for column in table.primary_key]
    emptied = [
        dict(zip(keys, (project_id, *key), strict=True))
        for key, amounts in changes
        if amounts[counter] < 0
    ]
    if emptied:
        conn.execute(_DROP_EMPTY[table], emptied)


class UnmergedCell(NamedTuple):
    """What is to be added to an hour of a cohort, and taken from it where it is negative."""

    hour_us: int
    cohort_id: int  #: the true one, whether or not it has rollups of its own
    sums: Sums
    tallies: Tallies


def append(
    conn: Connection, project_id: int, job: str, added: RollupDeltas, marked_us: int
) -> None:
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


def unmerged_cells(conn: Connection, project_id: int) -> Iterator[UnmergedCell]:
    """Read all that waits to be merged of a project."""
    for cells in conn.scalars(_OF_PROJECT, {"project_id": project_id}):
        yield from decoded(cells)


def merge(conn: Connection, slots: Collection[int] | None = None) -> int:
    """Take up to ``MERGED_AT_ONCE`` folds of jobs in *slots*, or of all, into the rollups.

    Return how many those were. Slots that another merger is at are left to it. *conn* reads no
    more; its writes are sent with the commit.
    """
    free: Collection[int] = range(SLOTS) if slots is None else slots
    if conn.dialect.name == "postgresql":
        free = hold_free_slots(conn, free)
    if not free:
        return 0
    in_some = len(free) < SLOTS
    parameters = {"most": MERGED_AT_ONCE} | ({"slots": free} if in_some else {})
    taken = conn.execute(_taking(in_some=in_some), parameters).all()
    changes = _added_up(conn, taken)
    begin_last_trip(conn)
    _write_each(conn, changes)
    return len(taken)


def merge_jobs(conn: Connection, batch: JobBatch) -> None:
    """Take all folds of these jobs into the rollups, once no merger is at their slots."""
    if conn.dialect.name == "postgresql":
        wait_for_slots(conn, batch.project_id, batch.jobs)
    _write_each(conn, _added_up(conn, conn.execute(_TAKE_OF_JOBS, batch.parameters()).all()))


_OF_PROJECT = select(unmerged.c.cells).where(unmerged.c.project_id == bindparam("project_id"))
_TAKEN = (unmerged.c.project_id, unmerged.c.cells)
_TAKE_OF_JOBS = delete(unmerged).where(*of_jobs(unmerged)).returning(*_TAKEN)
_EXCLUDED = select(cohort.c.id, cohort.c.excluded).where(
    cohort.c.id.in_(bindparam("cohorts", expanding=True))
)


@cache
def _taking(*, in_some: bool) -> Executable:
    keys = tuple(unmerged.primary_key)
    # Chosen ahead of the deletion: a subquery may run once a row, each time with its own limit.
    query = select(*keys).limit(bindparam("most"))
    if in_some:
        query = query.where(in_slots(unmerged))
    chosen = query.cte("chosen")
    return delete(unmerged).where(tuple_(*keys).in_(select(*chosen.c))).returning(*_TAKEN)


def _added_up(
    conn: Connection, taken: Sequence[Row[*tuple[Any, ...]]]
) -> Mapping[int, Mapping[Table, Amounts]]:
    """Add up what folds added, by project, as the tables of the rollups have it."""
    by_project: defaultdict[int, list[UnmergedCell]] = defaultdict(list)
    for project_id, cells in taken:
        by_project[project_id] += decoded(cells)
    hourly_from_us = hours.kept_from(conn) if taken else EVERY_HOUR
    return {
        project_id: _merged(conn, project_id, of_folds).by_table(hourly_from_us)
        for project_id, of_folds in sorted(by_project.items())
    }


def _write_each(conn: Connection, by_project: Mapping[int, Mapping[Table, Amounts]]) -> None:
    for project_id, changes in by_project.items():
        write(conn, project_id, changes)


def _merged(conn: Connection, project_id: int, cells: Sequence[UnmergedCell]) -> RollupDeltas:
    """Add up cells as the rollups have them, where some cohorts are in ``other``."""
    gathered = RollupDeltas()
    for cell in cells:
        gathered.put(*cell)
    days = {(day_of(hour_us), cohort_id) for (hour_us, cohort_id), _, _ in gathered.cells()}
    other = _others(conn, project_id, hold(conn, project_id, days))
    if not other:
        return gathered
    deltas = RollupDeltas()
    for (hour_us, cohort_id), sums, tallies in gathered.cells():
        rolled_up_as = other.get((day_of(hour_us), cohort_id), cohort_id)
        deltas.put(hour_us, rolled_up_as, sums, tallies)
    return deltas


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
    return other(conn, project_id, excluded=excluded)


def _nonzero(sums: Iterable[int]) -> dict[str, int]:
    return {name: amount for name, amount in zip(MEASURES, sums, strict=True) if amount}
