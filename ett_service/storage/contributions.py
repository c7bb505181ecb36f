"""What each job adds to the hours of its cohorts, and rollups that equal the sum of it all."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from operator import sub
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Select, and_, bindparam, delete, select

from ett_service.core.cohort import Cohort
from ett_service.core.contribution import Cell, hour_of
from ett_service.core.interval import DAY_US
from ett_service.core.totals import MEASURES
from ett_service.storage import cohort_days, cohorts, narrow
from ett_service.storage.additions import Additions, Sums, Tallies, day_of
from ett_service.storage.marks import JobKey
from ett_service.storage.rollups import start_of
from ett_service.storage.tables import cohort, cohort_day, contribution

Place: TypeAlias = tuple[int, Cohort]
"""The start of an hour, in microseconds since the Unix epoch, and a cohort."""

_BEGINNING = -(2**63)
_CONTENT = (*MEASURES, "tallies")
_NO_TALLIES = "{}"
_DIMENSIONS_END = 3 + len(Cohort._fields)

_encode = msgspec.json.Encoder().encode
decoded: Callable[[str], Tallies] = msgspec.json.Decoder(
    dict[str, dict[int, tuple[int, int]]]
).decode
"""Read tallies as they are stored."""


class Content(NamedTuple):
    """What a job adds to one place, as it is stored."""

    sums: tuple[int, ...]  #: in the order of ``MEASURES``
    tallies: str  #: JSON: ``{name: {place: [count, us]}}``


class _Target(NamedTuple):
    """Where a place is kept."""

    cohort_id: int
    rolled_up_as: int  #: the cohort's own id, or that of ``other``


class _Stored(NamedTuple):
    content: Content
    cohort_id: int
    kept: bool  #: whether the cohort has rollups of its own on that day


DAY = start_of(contribution.c.hour_us, DAY_US)
"""The start of the day (UTC) of a row, as ``cohort_day`` has it."""

_STORED = (
    select(
        contribution.c.hour_us,
        contribution.c.cohort_id,
        cohort_day.c.kept,
        *(cohort.c[name] for name in Cohort._fields),
        *(contribution.c[name] for name in _CONTENT),
    )
    .join_from(contribution, cohort, contribution.c.cohort_id == cohort.c.id)
    .join(
        cohort_day,
        and_(
            cohort_day.c.project_id == contribution.c.project_id,
            cohort_day.c.day_us == DAY,
            cohort_day.c.cohort_id == contribution.c.cohort_id,
        ),
    )
    .where(
        contribution.c.project_id == bindparam("project_id"),
        contribution.c.job == bindparam("job"),
        contribution.c.hour_us >= bindparam("since"),
    )
)
_HELD = _STORED.with_for_update(read=True, of=cohort_day)


_DROP = delete(contribution).where(
    *(column == bindparam(column.name) for column in contribution.primary_key)
)


def content(cell: Cell) -> Content:
    """Return a cell as it is stored."""
    sums = cell.sums
    return Content(tuple([sums.get(name, 0) for name in MEASURES]), _tallies(cell))


def stored(conn: Connection, key: JobKey) -> dict[Place, Content]:
    """Read all that a job adds."""
    return {place: row.content for place, row in _read(conn, _STORED, key, None).items()}


def amounts(one: Content) -> tuple[Sums, Tallies]:
    """Return what is added, as sums and as tallies."""
    return one.sums, decoded(one.tallies) if one.tallies != _NO_TALLIES else {}


def replace(
    conn: Connection, key: JobKey, cells: Mapping[Place, Cell], since: int | None = None
) -> None:
    """Write what a job adds over what is stored, and carry the difference to the rollups.

    With *since*, an instant, *cells* begin with its hour, and earlier hours stay as they are.
    """
    before = _read(conn, _HELD, key, since)
    after = {place: content(cell) for place, cell in cells.items()}
    changed = {
        place: one
        for place, one in after.items()
        if place not in before or before[place].content != one
    }
    gone = [place for place in before if place not in after]
    if not changed and not gone:
        return
    targets = _targets(conn, key.project_id, before, changed)
    _drop(conn, key, [(place[0], targets[place].cohort_id) for place in gone])
    _put(
        conn,
        key,
        [
            (place[0], targets[place].cohort_id, before.get(place), one)
            for place, one in changed.items()
        ],
    )
    additions = Additions()
    for place, row in before.items():
        if place in changed or place not in after:
            additions.take(place[0], targets[place].rolled_up_as, *amounts(row.content))
    for place, one in changed.items():
        additions.put(place[0], targets[place].rolled_up_as, *amounts(one))
    additions.write(conn, key.project_id)


def _read(
    conn: Connection, statement: Select[Any], key: JobKey, since: int | None
) -> dict[Place, _Stored]:
    of_job = {**key._asdict(), "since": _BEGINNING if since is None else hour_of(since)}
    return {
        (row[0], Cohort(*row[3:_DIMENSIONS_END])): _Stored(
            Content(row[_DIMENSIONS_END:-1], row[-1]), row[1], bool(row[2])
        )
        for row in map(tuple, conn.execute(statement, of_job))
    }


def _targets(
    conn: Connection, project_id: int, before: Mapping[Place, _Stored], changed: Collection[Place]
) -> dict[Place, _Target]:
    """Find, or make, the rows that those of the places refer to."""
    ids = {one: row.cohort_id for (_, one), row in before.items()}
    ids |= cohorts.ids(conn, project_id, {one for _, one in changed} - ids.keys())
    kept = {(day_of(hour_at), row.cohort_id): row.kept for (hour_at, _), row in before.items()}
    days = {(day_of(hour_at), ids[one]) for hour_at, one in changed}
    kept |= cohort_days.hold(conn, project_id, days - kept.keys())

    @cache
    def other(*, excluded: bool) -> int:
        return cohorts.other(conn, project_id, excluded=excluded)

    return {
        (hour_at, one): _Target(
            ids[one],
            ids[one] if kept[day_of(hour_at), ids[one]] else other(excluded=one.excluded),
        )
        for hour_at, one in {*before, *changed}
    }


def _tallies(cell: Cell) -> str:
    if not cell.tallies:
        return _NO_TALLIES
    names: defaultdict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for (name, place), counted in sorted(cell.tallies.items()):
        names[name][place] = counted
    return _encode(names).decode()


def _drop(conn: Connection, key: JobKey, rows: Iterable[tuple[int, int]]) -> None:
    of_job = key._asdict()
    dropped = [{**of_job, "hour_us": hour_at, "cohort_id": one} for hour_at, one in rows]
    if dropped:
        conn.execute(_DROP, dropped)


def _put(
    conn: Connection, key: JobKey, rows: Sequence[tuple[int, int, _Stored | None, Content]]
) -> None:
    said = narrow.said(
        map(sub, one.sums, before.content.sums) if before else one.sums
        for _, _, before, one in rows
    )
    names = (*[MEASURES[place] for place in said], "tallies")
    put = [
        (*key, hour_at, cohort_id, *[one.sums[place] for place in said], one.tallies)
        for hour_at, cohort_id, _, one in rows
    ]
    narrow.put(conn, contribution, names, put)
