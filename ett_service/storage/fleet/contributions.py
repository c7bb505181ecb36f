"""Contributions: what each job adds to the hours of its cohorts."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import sub
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Select, and_, bindparam, delete, select

from ett_service.core.dimensions import Cohort
from ett_service.core.fleet.contribution import Cell, hour_of
from ett_service.core.fleet.totals import MEASURES
from ett_service.core.intervals import DAY_US
from ett_service.storage.engine import statements
from ett_service.storage.fleet import cohorts
from ett_service.storage.fleet.rollup_deltas import Additions, Sums, Tallies, day_of
from ett_service.storage.fleet.rollups import start_of
from ett_service.storage.jobs.batches import Changes, Values
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import cohort, cohort_day, contribution

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
    kept |= cohorts.hold(conn, project_id, days - kept.keys())

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
    said = statements.said(
        map(sub, one.sums, before.content.sums) if before else one.sums
        for _, _, before, one in rows
    )
    names = (*[MEASURES[place] for place in said], "tallies")
    put = [
        (*key, hour_at, cohort_id, *[one.sums[place] for place in said], one.tallies)
        for hour_at, cohort_id, _, one in rows
    ]
    statements.put(conn, contribution, names, put)


Ids: TypeAlias = dict[Cohort, int]
"""The ids of a project's cohorts, as far as they are known."""

_FIRST_MEASURE = 4  #: where a row's measures begin, behind project, job, hour and cohort

_KNOWN = select(cohort.c.id, *(cohort.c[name] for name in Cohort._fields)).where(
    cohort.c.other.is_(False)
)


@dataclass(slots=True)
class ContributionChanges:
    """What is to be taken out of a project's rollups, and what to be put in."""

    taken: list[Values] = field(default_factory=list)  #: rows as they are stored
    put: list[tuple[str, int, Cohort, Content]] = field(default_factory=list)

    def compare(
        self, job: str, before: Iterable[Values], after: Mapping[Place, Cell], known: Ids
    ) -> None:
        """Gather what has to be written of a job; all that is stored refers to *known* ids."""
        stored = {row[2:_FIRST_MEASURE]: row for row in before}
        for (hour_at, one), cell in after.items():
            said = content(cell)
            place = (hour_at, known.get(one))
            if place in stored and stored[place][_FIRST_MEASURE:] == (*said.sums, said.tallies):
                del stored[place]
            else:
                self.put.append((job, hour_at, one, said))
        self.taken += stored.values()

    def write(self, conn: Connection, project_id: int, known: Ids) -> None:
        """Replace the rows and carry the difference to the rollups; *known* learns new ids."""
        if not self.taken and not self.put:
            return
        unknown = {one for _, _, one, _ in self.put} - known.keys()
        known |= cohorts.ids(conn, project_id, unknown)
        put = [
            (project_id, job, hour_at, known[one], *said.sums, said.tallies)
            for job, hour_at, one, said in self.put
        ]
        self._add_up(conn, project_id, put, known)
        changes = Changes()
        changes.compare(contribution, self.taken, put)
        changes.write(conn)

    def _add_up(self, conn: Connection, project_id: int, put: list[Values], known: Ids) -> None:
        days = {(day_of(row[2]), row[3]) for row in (*self.taken, *put)}
        kept = cohorts.hold(conn, project_id, days)
        of_id = {number: one for one, number in known.items()}

        @cache
        def rolled_up_as(day_us: int, cohort_id: int) -> int:
            if kept[day_us, cohort_id]:
                return cohort_id
            return cohorts.other(conn, project_id, excluded=of_id[cohort_id].excluded)

        additions = Additions()
        for rows, change in ((self.taken, additions.take), (put, additions.put)):
            for row in rows:
                said = Content(row[_FIRST_MEASURE:-1], row[-1])
                change(row[2], rolled_up_as(day_of(row[2]), row[3]), *amounts(said))
        additions.write(conn, project_id)


def known_ids(conn: Connection, project_id: int) -> Ids:
    """Read the ids of all cohorts of a project."""
    rows = conn.execute(_KNOWN.where(cohort.c.project_id == project_id))
    return {Cohort._make((*named, bool(out))): number for number, *named, out in rows}
