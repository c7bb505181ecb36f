"""What many jobs of a project add to the fleet, written at once.

As ``contributions.replace`` does for one job: contributions are replaced, and the difference goes
to the rollups, here once for all of the jobs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from sqlalchemy import Connection, select

from ett_service.core.cohort import Cohort
from ett_service.core.contribution import Cell
from ett_service.storage import cohort_days, cohorts
from ett_service.storage.additions import Additions, day_of
from ett_service.storage.contributions import Content, Place, amounts, content
from ett_service.storage.rewriting import Changes, Values
from ett_service.storage.tables import cohort, contribution

Ids: TypeAlias = dict[Cohort, int]
"""The ids of a project's cohorts, as far as they are known."""

_CONTENT = 4  #: where a row's measures begin, behind project, job, hour and cohort

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
        stored = {row[2:_CONTENT]: row for row in before}
        for (hour_at, one), cell in after.items():
            said = content(cell)
            place = (hour_at, known.get(one))
            if place in stored and stored[place][_CONTENT:] == (*said.sums, said.tallies):
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
        kept = cohort_days.hold(conn, project_id, days)
        of_id = {number: one for one, number in known.items()}

        @cache
        def rolled_up_as(day_us: int, cohort_id: int) -> int:
            if kept[day_us, cohort_id]:
                return cohort_id
            return cohorts.other(conn, project_id, excluded=of_id[cohort_id].excluded)

        additions = Additions()
        for rows, change in ((self.taken, additions.take), (put, additions.put)):
            for row in rows:
                said = Content(row[_CONTENT:-1], row[-1])
                change(row[2], rolled_up_as(day_of(row[2]), row[3]), *amounts(said))
        additions.write(conn, project_id)


def known_ids(conn: Connection, project_id: int) -> Ids:
    """Read the ids of all cohorts of a project."""
    rows = conn.execute(_KNOWN.where(cohort.c.project_id == project_id))
    return {Cohort._make((*named, bool(out))): number for number, *named, out in rows}
