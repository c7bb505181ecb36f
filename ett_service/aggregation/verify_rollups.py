"""Whether the rollups are the sum of what the jobs contribute, to the last cell."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Table

from ett_service.storage import rollup_rows
from ett_service.storage.additions import MEASURES_OF, Amounts, Key
from ett_service.storage.engine import Readable
from ett_service.storage.rollup_rows import Day

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
        yield from map(_compare, rollup_rows.days(conn))


def _compare(day: Day) -> DayVerdict:
    differences: list[RollupDifference] = []
    cells = 0
    for table in MEASURES_OF:
        one, other = day.stored.get(table, {}), day.summed.get(table, {})
        keys = one.keys() | other.keys()
        cells += len(keys)
        for key in sorted((key for key in keys if one.get(key) != other.get(key)), key=str):
            differences += _differences(day.project_id, table, key, one, other)
    return DayVerdict(day.project_id, day.day_us, cells, tuple(differences))


def _differences(
    project_id: int, table: Table, key: Key, stored: Amounts, summed: Amounts
) -> Iterator[RollupDifference]:
    for place, measure in enumerate(MEASURES_OF[table]):
        one = stored[key][place] if key in stored else _ABSENT
        other = summed[key][place] if key in summed else _ABSENT
        if one != other:
            what = " ".join([table.name, *map(str, key), measure])
            yield RollupDifference(project_id, what, one, other)
