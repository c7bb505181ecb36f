"""Contributions: what each job adds to the hours of its cohorts."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import sub
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Select, and_, bindparam, select

from ett_service.core.dimensions import Cohort
from ett_service.core.fleet.contribution import Cell, hour_of
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import DAY_US
from ett_service.storage.engine import statements
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.fleet.rollup_deltas import Additions, Sums, Tallies, day_of
from ett_service.storage.fleet.rollups import start_of
from ett_service.storage.record.dirty_marks import JobBatch, JobKey, of_jobs
from ett_service.storage.schema import cohort, cohort_day, contribution

Place: TypeAlias = tuple[int, Cohort]
"""The start of an hour, in microseconds since the Unix epoch, and a cohort."""

CohortIds: TypeAlias = dict[Cohort, int]
"""The ids of a project's cohorts, as far as they are known."""

_BEGINNING = -(2**63)
_CONTENT = (*MEASURES, "tallies")
_NO_TALLIES = "{}"
_DIMENSIONS_BEGIN = 4
_DIMENSIONS_END = _DIMENSIONS_BEGIN + len(Cohort._fields)

_encode = msgspec.json.Encoder().encode
decoded: Callable[[str], Tallies] = msgspec.json.Decoder(
    dict[str, dict[int, tuple[int, int]]]
).decode
"""Read tallies as they are stored."""


class Content(NamedTuple):
    """What a job adds to one place, as it is stored."""

    sums: tuple[int, ...]  #: in the order of ``MEASURES``
    tallies: str  #: JSON: ``{name: {place: [count, us]}}``


class ExistingCell(NamedTuple):
    """What a job adds to one place, and where it is kept."""

    content: Content
    cohort_id: int
    kept: bool  #: whether the cohort has rollups of its own on that day


ExistingCells: TypeAlias = Mapping[Place, ExistingCell]


class CellChange(NamedTuple):
    """One place of a job in which something else is to stand than is stored."""

    job: str
    place: Place
    before: ExistingCell | None
    after: Content | None


DAY = start_of(contribution.c.hour_us, DAY_US)
"""The start of the day (UTC) of a row, as ``cohort_day`` has it."""

_ROWS = (
    select(
        contribution.c.job,
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
)
_OF_BATCH = _ROWS.where(*of_jobs(contribution))
_OF_JOB_SINCE = _ROWS.where(
    contribution.c.project_id == bindparam("project_id"),
    contribution.c.job == bindparam("job"),
    contribution.c.hour_us >= bindparam("since"),
)
_HELD_OF_BATCH = _OF_BATCH.with_for_update(read=True, of=cohort_day)
_HELD_OF_JOB_SINCE = _OF_JOB_SINCE.with_for_update(read=True, of=cohort_day)


def content(cell: Cell) -> Content:
    """Return a cell as it is stored."""
    sums = cell.sums
    return Content(tuple([sums.get(name, 0) for name in MEASURES]), _tallies(cell))


def amounts(stored: Content) -> tuple[Sums, Tallies]:
    """Return what is added, as sums and as tallies."""
    return stored.sums, decoded(stored.tallies) if stored.tallies != _NO_TALLIES else {}


def existing(conn: Connection, key: JobKey, since: int | None = None) -> ExistingCells:
    """Read what a job adds, from the hour on in which the instant *since* lies, to change it.

    Which cohorts keep rollups of their own stays as it is until the transaction ends.
    """
    of_job = {**key._asdict(), "since": _BEGINNING if since is None else hour_of(since)}
    return _by_job(conn, _HELD_OF_JOB_SINCE, of_job)[key.job]


def existing_of_batch(
    conn: Connection, batch: JobBatch, *, hold: bool
) -> Mapping[str, ExistingCells]:
    """Read all that jobs add; *hold* what :func:`existing` holds, where it is to be changed."""
    return _by_job(conn, _HELD_OF_BATCH if hold else _OF_BATCH, batch.parameters())


def replace(
    conn: Connection, key: JobKey, cells: Mapping[Place, Cell], since: int | None = None
) -> None:
    """Write what a job adds over what is stored, and carry the difference to the rollups.

    With *since*, an instant, *cells* begin with its hour, and earlier hours stay as they are.
    """
    changes = ContributionChanges()
    changes.compare(key.job, existing(conn, key, since), cells)
    changes.write(conn, key.project_id, {})


@dataclass(slots=True)
class ContributionChanges:
    """Where jobs of a project add something else than is stored."""

    cells: list[CellChange] = field(default_factory=list)

    def compare(self, job: str, before: ExistingCells, cells: Mapping[Place, Cell]) -> None:
        """Gather what has to be written of a job."""
        for place, cell in cells.items():
            after, stored = content(cell), before.get(place)
            if stored is None or stored.content != after:
                self.cells.append(CellChange(job, place, stored, after))
        self.cells += [
            CellChange(job, place, stored, None)
            for place, stored in before.items()
            if place not in cells
        ]

    def write(self, conn: Connection, project_id: int, ids: CohortIds) -> None:
        """Write the cells and carry the difference to the rollups; *ids* learns of new cohorts."""
        if not self.cells:
            return
        ids |= {change.place[1]: change.before.cohort_id for change in self.cells if change.before}
        ids |= rollup_deltas.ids(
            conn, project_id, {change.place[1] for change in self.cells} - ids.keys()
        )
        additions = self._additions(conn, project_id, ids)
        self._write_cells(conn, project_id, ids)
        additions.write(conn, project_id)

    def _additions(self, conn: Connection, project_id: int, ids: CohortIds) -> Additions:
        has_rollups = {
            (day_of(change.place[0]), change.before.cohort_id): change.before.kept
            for change in self.cells
            if change.before
        }
        days = {(day_of(change.place[0]), ids[change.place[1]]) for change in self.cells}
        has_rollups |= rollup_deltas.hold(conn, project_id, days - has_rollups.keys())

        @cache
        def other(*, excluded: bool) -> int:
            return rollup_deltas.other(conn, project_id, excluded=excluded)

        additions = Additions()
        for _, (hour_at, dimensions), before, after in self.cells:
            rolled_up_as = ids[dimensions]
            if not has_rollups[day_of(hour_at), rolled_up_as]:
                rolled_up_as = other(excluded=dimensions.excluded)
            if before is not None:
                additions.take(hour_at, rolled_up_as, *amounts(before.content))
            if after is not None:
                additions.put(hour_at, rolled_up_as, *amounts(after))
        return additions

    def _write_cells(self, conn: Connection, project_id: int, ids: CohortIds) -> None:
        def key(change: CellChange) -> tuple[int, str, int, int]:
            hour_at, dimensions = change.place
            return project_id, change.job, hour_at, ids[dimensions]

        gone = [key(change) for change in self.cells if change.after is None]
        statements.delete(conn, contribution, gone)
        changed = [change for change in self.cells if change.before and change.after]
        new = [change for change in self.cells if not change.before]
        for write, cells in ((statements.put, changed), (statements.insert, new)):
            names, rows = _columns(cells)
            write(conn, contribution, names, [(*key(change), *row) for change, row in rows])


def _columns(
    cells: Sequence[CellChange],
) -> tuple[tuple[str, ...], list[tuple[CellChange, Sequence[Any]]]]:
    """Name the columns in which there is something to be said, and give the values of each."""
    written = [(change, change.before, change.after) for change in cells if change.after]
    nonzero = statements.nonzero_places(
        map(sub, after.sums, before.content.sums) if before else after.sums
        for _, before, after in written
    )
    names = (*[MEASURES[place] for place in nonzero], "tallies")
    return names, [
        (change, (*[after.sums[place] for place in nonzero], after.tallies))
        for change, _, after in written
    ]


def _by_job(
    conn: Connection, statement: Select[Any], parameters: Mapping[str, object]
) -> defaultdict[str, dict[Place, ExistingCell]]:
    cells: defaultdict[str, dict[Place, ExistingCell]] = defaultdict(dict)
    for row in map(tuple, conn.execute(statement, dict(parameters))):
        place = (row[1], Cohort(*row[_DIMENSIONS_BEGIN:_DIMENSIONS_END]))
        stored = Content(row[_DIMENSIONS_END:-1], row[-1])
        cells[row[0]][place] = ExistingCell(stored, row[2], bool(row[3]))
    return cells


def _tallies(cell: Cell) -> str:
    if not cell.tallies:
        return _NO_TALLIES
    names: defaultdict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for (name, place), counted in sorted(cell.tallies.items()):
        names[name][place] = counted
    return _encode(names).decode()
