"""Whether the rollups are the sum of what the jobs contribute, to the last cell."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Table

from ett_service.storage import rollup_rows
from ett_service.storage.additions import MEASURES_OF, Amounts, Key
from ett_service.storage.engine import Readable

_ABSENT = "nothing"


@dataclass(frozen=True, slots=True)
class RollupDifference:
    """One value of a project's rollups that is not the sum of its jobs' contributions."""

    project_id: int
    what: str  #: table, key within the project and column
    stored: object
    recomputed: object


@dataclass(frozen=True, slots=True)
class DayVerdict:
    """What was found of a project's day."""

    project_id: int
    day_us: int
    cells: int  #: how many rows were compared
    differences: tuple[RollupDifference, ...] = ()


def verify_rollups(store: Readable) -> Iterator[DayVerdict]:
    """Sum all contributions anew and compare, hours and days, sums and tallies.

    Jobs that wait to be folded make no difference: their rollups are as their contributions.
    """
    with store.reading() as conn:
        for project_id in rollup_rows.projects(conn):
            left = rollup_rows.days(conn, project_id)
            for day_us, summed in rollup_rows.summed(conn, project_id):
                left.discard(day_us)
                stored = rollup_rows.stored(conn, project_id, day_us)
                yield _compare(project_id, day_us, stored, summed)
            for day_us in sorted(left):
                stored = rollup_rows.stored(conn, project_id, day_us)
                yield _compare(project_id, day_us, stored, {})


def _compare(
    project_id: int, day_us: int, stored: Mapping[Table, Amounts], summed: Mapping[Table, Amounts]
) -> DayVerdict:
    differences: list[RollupDifference] = []
    cells = 0
    for table in MEASURES_OF:
        one, other = stored.get(table, {}), summed.get(table, {})
        keys = one.keys() | other.keys()
        cells += len(keys)
        for key in sorted((key for key in keys if one.get(key) != other.get(key)), key=str):
            differences += _differences(project_id, table, key, one, other)
    return DayVerdict(project_id, day_us, cells, tuple(differences))


def _differences(
    project_id: int, table: Table, key: Key, stored: Amounts, summed: Amounts
) -> Iterator[RollupDifference]:
    for place, measure in enumerate(MEASURES_OF[table]):
        one = stored[key][place] if key in stored else _ABSENT
        other = summed[key][place] if key in summed else _ABSENT
        if one != other:
            what = " ".join([table.name, *map(str, key), measure])
            yield RollupDifference(project_id, what, one, other)
