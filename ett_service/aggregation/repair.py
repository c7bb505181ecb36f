"""Rollups brought to the sum of what the jobs contribute, where they are not.

Differences are found in one state of the store and added to what is there later: whatever other
writers add meanwhile changes rollups and contributions alike.
"""

from collections.abc import Iterator
from functools import partial
from operator import sub

from sqlalchemy import Table

from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollup_deltas, rollup_rows
from ett_service.storage.fleet.rollup_deltas import MEASURES_OF, Amounts


def repair(store: Store) -> int:
    """Correct every row that differs, and return how many did."""
    repaired = 0
    for project_id, changes in list(_differing(store)):
        store.write(partial(rollup_deltas.write, project_id=project_id, changes=changes))
        repaired += sum(map(len, changes.values()))
    return repaired


def _differing(store: Store) -> Iterator[tuple[int, dict[Table, Amounts]]]:
    with store.reading() as conn:
        for day in rollup_rows.days(conn):
            changes = {
                table: _missing(
                    day.stored.get(table, {}), day.summed.get(table, {}), (0,) * len(measures)
                )
                for table, measures in MEASURES_OF.items()
            }
            if any(changes.values()):
                yield day.project_id, changes


def _missing(stored: Amounts, summed: Amounts, nothing: tuple[int, ...]) -> Amounts:
    return {
        key: tuple(map(sub, summed.get(key, nothing), stored.get(key, nothing)))
        for key in stored.keys() | summed.keys()
        if stored.get(key) != summed.get(key)
    }
