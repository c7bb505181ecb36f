"""Rollups brought to the sum of what the jobs contribute, where they are not.

Differences are found in one state of the store and added to what is there later: whatever other
writers add meanwhile changes rollups and contributions alike.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from operator import sub

from sqlalchemy import Table

from ett_service.storage import additions, rollup_rows
from ett_service.storage.additions import MEASURES_OF, Amounts
from ett_service.storage.engine import Store


def repair(store: Store) -> int:
    """Correct every row that differs, and return how many did."""
    repaired = 0
    for project_id, changes in list(_differing(store)):
        store.write(partial(additions.write, project_id=project_id, changes=changes))
        repaired += sum(map(len, changes.values()))
    return repaired


def _differing(store: Store) -> Iterator[tuple[int, dict[Table, Amounts]]]:
    with store.reading() as conn:
        for project_id in rollup_rows.projects(conn):
            left = rollup_rows.days(conn, project_id)
            for day_us, summed in rollup_rows.summed(conn, project_id):
                left.discard(day_us)
                yield from _of_day(project_id, rollup_rows.stored(conn, project_id, day_us), summed)
            for day_us in sorted(left):
                yield from _of_day(project_id, rollup_rows.stored(conn, project_id, day_us), {})


def _of_day(
    project_id: int, stored: Mapping[Table, Amounts], summed: Mapping[Table, Amounts]
) -> Iterator[tuple[int, dict[Table, Amounts]]]:
    changes = {
        table: _missing(
            stored.get(table, {}), summed.get(table, {}), (0,) * len(MEASURES_OF[table])
        )
        for table in MEASURES_OF
    }
    if any(changes.values()):
        yield project_id, changes


def _missing(stored: Amounts, summed: Amounts, nothing: tuple[int, ...]) -> Amounts:
    return {
        key: tuple(map(sub, summed.get(key, nothing), stored.get(key, nothing)))
        for key in stored.keys() | summed.keys()
        if stored.get(key) != summed.get(key)
    }
