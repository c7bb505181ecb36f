"""Rollup deltas: what is added to the sums by hour and by day, and for which cohorts."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import add, sub
from typing import Any, TypeAlias

from sqlalchemy import Connection, Delete, Table, bindparam, delete, select

from ett_service.core.dimensions import DIMENSIONS, Cohort
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import DAY_US
from ett_service.storage import schema
from ett_service.storage.engine import statements
from ett_service.storage.engine.statements import insert_new
from ett_service.storage.schema import cohort, cohort_day

_KEY = ("project_id", *DIMENSIONS, "excluded", "other")
_FIND = select(cohort.c.id).where(*(cohort.c[name] == bindparam(name) for name in _KEY))


def ids(conn: Connection, project_id: int, cohorts: Iterable[Cohort]) -> dict[Cohort, int]:
    """Return the ids of a project's cohorts; new ones are inserted.

    That is done in order, so that two writers never wait for each other in a circle.
    """
    return {
        dimensions: _id(conn, {"project_id": project_id, **dimensions._asdict(), "other": False})
        for dimensions in sorted(cohorts)
    }


def other(conn: Connection, project_id: int, *, excluded: bool) -> int:
    """Return the id of the cohort that takes what the cap on a day's cohorts leaves over."""
    unknown = dict.fromkeys(DIMENSIONS, "")
    key = {"project_id": project_id, **unknown, "excluded": excluded, "other": True}
    return _id(conn, key)


def _id(conn: Connection, key: Mapping[str, Any]) -> int:
    cohort_id = conn.scalar(_FIND, key)
    if cohort_id is None:  # unless another writer is first
        insert_new(conn, cohort, [key])
        cohort_id = conn.execute(_FIND, key).scalar_one()
    return int(cohort_id)


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

Key: TypeAlias = tuple[Any, ...]
"""The primary key behind the project; it begins with the start of an hour or a day."""

Amounts: TypeAlias = dict[Key, Sums]

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


class Additions:
    """Differences of a project's hours, gathered cell by cell and then added at once.

    Rows are written in the order of their keys, so that two writers never wait for each other in
    a circle; one that sums nothing any more is deleted.
    """

    def __init__(self) -> None:
        self._sums: Amounts = {}
        self._tallies: Amounts = {}

    def put(self, hour_at: int, cohort_id: int, sums: Sums, tallies: Tallies) -> None:
        """Add to an hour of a cohort."""
        cell = hour_at, cohort_id
        self._sums[cell] = tuple(map(add, self._sums.get(cell, _NOTHING), sums))
        for name, places in tallies.items():
            for place, (count, us) in places.items():
                at = (*cell, name, place)
                before = self._tallies.get(at, (0, 0))
                self._tallies[at] = (before[0] + count, before[1] + us)

    def take(self, hour_at: int, cohort_id: int, sums: Sums, tallies: Tallies) -> None:
        """Take out of an hour of a cohort."""
        cell = hour_at, cohort_id
        self._sums[cell] = tuple(map(sub, self._sums.get(cell, _NOTHING), sums))
        for name, places in tallies.items():
            for place, (count, us) in places.items():
                at = (*cell, name, place)
                before = self._tallies.get(at, (0, 0))
                self._tallies[at] = (before[0] - count, before[1] - us)

    def cells(self) -> Iterator[tuple[CohortHour, Sums, Tallies]]:
        """Yield what was gathered by hour and cohort, without what is 0, in order."""
        tallies: defaultdict[Key, defaultdict[str, dict[int, tuple[int, int]]]]
        tallies = defaultdict(lambda: defaultdict(dict))
        for (hour_at, cohort_id, name, place), (count, us) in _not_0(self._tallies).items():
            tallies[hour_at, cohort_id][name][place] = (count, us)
        sums = _not_0(self._sums)
        for cell in sorted(sums.keys() | tallies.keys()):
            hour_at, cohort_id = cell
            yield (hour_at, cohort_id), sums.get(cell, _NOTHING), tallies.get(cell, {})

    def by_table(self) -> dict[Table, Amounts]:
        """Return what was gathered as the tables of the rollups have it, without what is 0."""
        return {
            schema.rollup_hourly: _not_0(self._sums),
            schema.rollup_daily: _not_0(_by_day(self._sums)),
            schema.tally_hourly: _not_0(self._tallies),
            schema.tally_daily: _not_0(_by_day(self._tallies)),
        }

    def write(self, conn: Connection, project_id: int) -> None:
        """Add what was gathered to the project's rollups."""
        write(conn, project_id, self.by_table())


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


def _not_0(gathered: Amounts) -> Amounts:
    return {key: amounts for key, amounts in gathered.items() if any(amounts)}


def _write(
    conn: Connection, table: Table, project_id: int, changes: Sequence[tuple[Key, Sums]]
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
