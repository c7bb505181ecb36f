"""Contributions: what each job adds to the hours of its cohorts."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import sub
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, Select, bindparam, select

from ett_service.core.dimensions import Cohort
from ett_service.core.fleet.contribution import Cell, hour_of
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import DAY_US
from ett_service.storage.engine import statements
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.fleet.rollup_deltas import RollupDeltas, Sums, Tallies
from ett_service.storage.fleet.rollups import start_of
from ett_service.storage.record.dirty_marks import JobBatch, JobKey, of_jobs
from ett_service.storage.schema import cohort, contribution

Place: TypeAlias = tuple[int, Cohort]
"""The start of an hour, in microseconds since the Unix epoch, and a cohort."""

CohortIds: TypeAlias = dict[Cohort, int]
"""The ids of a project's cohorts, as far as they are known."""

_BEGINNING = -(2**63)
_CONTENT = (*MEASURES, "tallies")
_NO_TALLIES = "{}"
_DIMENSIONS_BEGIN = 3
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


ExistingCells: TypeAlias = Mapping[Place, ExistingCell]


class CellChange(NamedTuple):
    """One place of a job in which something else is to stand than is stored."""

    job: str
    place: Place
    before: ExistingCell | None
    after: Content | None


DAY = start_of(contribution.c.hour_us, DAY_US)
"""The start of the day (UTC) of a row, as ``cohort_day`` has it."""

_ROWS = select(
    contribution.c.job,
    contribution.c.hour_us,
    contribution.c.cohort_id,
    *(cohort.c[name] for name in Cohort._fields),
    *(contribution.c[name] for name in _CONTENT),
).join_from(contribution, cohort, contribution.c.cohort_id == cohort.c.id)
_OF_BATCH = _ROWS.where(*of_jobs(contribution))
_OF_JOB_SINCE = _ROWS.where(
    contribution.c.project_id == bindparam("project_id"),
    contribution.c.job == bindparam("job"),
    contribution.c.hour_us >= bindparam("since"),
)


def content(cell: Cell) -> Content:
    """Return a cell as it is stored."""
    sums = cell.sums
    return Content(tuple([sums.get(name, 0) for name in MEASURES]), _tallies(cell))


def amounts(stored: Content) -> tuple[Sums, Tallies]:
    """Return what is added, as sums and as tallies."""
    return stored.sums, decoded(stored.tallies) if stored.tallies != _NO_TALLIES else {}


def existing(conn: Connection, key: JobKey, since: int | None = None) -> ExistingCells:
    """Read what a job adds, from the hour on in which the instant *since* lies."""
    of_job = {**key._asdict(), "since": _BEGINNING if since is None else hour_of(since)}
    return _by_job(conn, _OF_JOB_SINCE, of_job)[key.job]


def existing_of_batch(conn: Connection, batch: JobBatch) -> Mapping[str, ExistingCells]:
    """Read all that jobs add."""
    return _by_job(conn, _OF_BATCH, batch.parameters())


def replace(
    conn: Connection, key: JobKey, cells: Mapping[Place, Cell], since: int | None = None
) -> None:
    """Write what a job adds over what is stored, and carry the difference to the rollups.

    With *since*, an instant, *cells* begin with its hour, and earlier hours stay as they are.
    """
    changes = ContributionChanges()
    changes.compare(key.job, existing(conn, key, since), cells)
    changes.write(conn, key.project_id, {}, 0)
    rollup_deltas.merge_jobs(conn, JobBatch(key.project_id, [key.job]))


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

    def known(self, ids: Mapping[Cohort, int]) -> CohortIds:
        """Return those of *ids* that the cells need."""
        needed = {change.place[1] for change in self.cells}
        return {cohort: ids[cohort] for cohort in needed if cohort in ids}

    def learn(self, conn: Connection, project_id: int, ids: CohortIds) -> None:
        """Have *ids* know all cohorts of the cells; new ones are inserted."""
        ids |= {change.place[1]: change.before.cohort_id for change in self.cells if change.before}
        ids |= rollup_deltas.ids(
            conn, project_id, {change.place[1] for change in self.cells} - ids.keys()
        )

    def write(self, conn: Connection, project_id: int, ids: CohortIds, marked_us: int) -> None:
        """Write the cells, and append what the rollups are to add; *ids* learns of new cohorts.

        *marked_us* is when the oldest of the facts came in that make the difference.
        """
        if not self.cells:
            return
        self.learn(conn, project_id, ids)
        self._write_cells(conn, project_id, ids)
        for job, deltas in self._deltas(ids).items():
            rollup_deltas.append(conn, project_id, job, deltas, marked_us)

    def _deltas(self, ids: CohortIds) -> Mapping[str, RollupDeltas]:
        by_job: defaultdict[str, RollupDeltas] = defaultdict(RollupDeltas)
        for job, (hour_at, dimensions), before, after in self.cells:
            if before is not None:
                by_job[job].take(hour_at, ids[dimensions], *amounts(before.content))
            if after is not None:
                by_job[job].put(hour_at, ids[dimensions], *amounts(after))
        return by_job

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
        cells[row[0]][place] = ExistingCell(stored, row[2])
    return cells


def _tallies(cell: Cell) -> str:
    if not cell.tallies:
        return _NO_TALLIES
    names: defaultdict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for (name, place), counted in sorted(cell.tallies.items()):
        names[name][place] = counted
    return _encode(names).decode()
