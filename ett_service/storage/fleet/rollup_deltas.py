"""Rollup deltas: what is added to sums and distributions, by hour and by day."""

from collections.abc import Mapping, Sequence
from operator import add, sub
from typing import Any, TypeAlias

from sqlalchemy import Connection, Delete, Table, bindparam, delete

from ett_service.core.fleet.totals import MEASURES
from ett_service.core.intervals import DAY_US
from ett_service.storage import schema
from ett_service.storage.engine import statements

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
