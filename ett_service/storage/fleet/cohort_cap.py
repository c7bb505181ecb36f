"""The cap on a day's cohorts: the largest keep rollups of their own, the rest are one, ``other``.

What jobs contribute keeps its true cohort, so what moves in or out of ``other`` is exact.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    func,
    null,
    or_,
    select,
    union_all,
    update,
)

from ett_service.core.fleet.measures import MEASURES
from ett_service.core.fleet.totals import GPU_MEASURES
from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.storage.engine.statements import Summed, Summing, summed_rows
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import rollup_deltas
from ett_service.storage.fleet.contributions import Content, amounts
from ett_service.storage.fleet.hours import kept_from
from ett_service.storage.fleet.rollup_deltas import RollupDeltas, Sums, Tallies, day_of
from ett_service.storage.schema import cohort, cohort_day, contribution, rollup_daily, unmerged

COHORTS_A_DAY = 500
CAP_EVERY_US = 30 * SECOND_US
"""How often full days are checked."""

_CAP_SLICE_US = 200_000  #: then it is the jobs' turn again
_COHORTS_AT_ONCE = 100  #: moved in one transaction: others may wait for their rows


class ProjectDay(NamedTuple):
    """A day of a project, as its first instant in microseconds since the Unix epoch."""

    project_id: int
    day_us: int


@dataclass(frozen=True, slots=True)
class Moves:
    """What a day needs to keep the cap, as ids of cohorts."""

    out: Sequence[int]  #: into ``other``
    back: Sequence[int]  #: to rollups of their own
    gone: Sequence[int]  #: nothing is left of them


_of_day = (
    cohort_day.c.project_id == bindparam("of_project"),
    cohort_day.c.day_us == bindparam("of_day"),
)
_of_cohorts = cohort_day.c.cohort_id.in_(bindparam("cohort_ids", expanding=True))
_in_the_day = (
    contribution.c.project_id == cohort_day.c.project_id,
    contribution.c.cohort_id == cohort_day.c.cohort_id,
    contribution.c.hour_us >= cohort_day.c.day_us,
    contribution.c.hour_us < cohort_day.c.day_us + DAY_US,
)

_FULL = (
    select(cohort_day.c.project_id, cohort_day.c.day_us)
    .group_by(cohort_day.c.project_id, cohort_day.c.day_us)
    .having(
        or_(
            func.count() > bindparam("most"),
            func.count().filter(cohort_day.c.kept.is_(False)) > 0,
        )
    )
    .order_by(cohort_day.c.day_us.desc(), cohort_day.c.project_id)
)
_SEEN = select(cohort_day.c.cohort_id, cohort_day.c.kept).where(*_of_day)
_OWN = (
    select(cohort_day.c.cohort_id)
    .join(
        rollup_daily,
        and_(
            rollup_daily.c.project_id == cohort_day.c.project_id,
            rollup_daily.c.start_us == cohort_day.c.day_us,
            rollup_daily.c.cohort_id == cohort_day.c.cohort_id,
        ),
    )
    .where(*_of_day, cohort_day.c.kept.is_(True))
)
_IN_OTHER = (
    select(cohort_day.c.cohort_id)
    .join(contribution, and_(*_in_the_day))
    .where(*_of_day, cohort_day.c.kept.is_(False))
)
#: Another transaction that adds to a cohort, or moves it, is not waited for.
_FREE = (
    select(cohort_day.c.cohort_id, cohort_day.c.kept, cohort.c.excluded)
    .join(cohort, cohort.c.id == cohort_day.c.cohort_id)
    .where(*_of_day, _of_cohorts)
    .order_by(cohort_day.c.cohort_id)
    .with_for_update(of=cohort_day, skip_locked=True)
)
_CONTRIBUTED = (
    select(
        cohort_day.c.cohort_id,
        contribution.c.hour_us,
        contribution.c.tallies,
        *(contribution.c[name] for name in MEASURES),
    )
    .join_from(cohort_day, contribution, and_(*_in_the_day))
    .where(*_of_day, _of_cohorts)
)
_UNMERGED = select(null(), null(), unmerged.c.cells, *(null() for _ in MEASURES)).where(
    unmerged.c.project_id == bindparam("of_project")
)
#: One statement, as two would see different folds.
_CONTENT = union_all(_CONTRIBUTED, _UNMERGED)
_SET = update(cohort_day).where(*_of_day, _of_cohorts).values(kept=bindparam("own"))
_FORGET = delete(cohort_day).where(*_of_day, _of_cohorts)


def full_days(conn: Connection, most: int) -> list[ProjectDay]:
    """Return the days with more than *most* cohorts, and those with any in ``other``.

    The latest come first.
    """
    return [ProjectDay(*row) for row in conn.execute(_FULL, {"most": most})]


def plan(conn: Connection, day: ProjectDay, most: int) -> Moves:
    """Find what keeps the *most* cohorts with the most GPU time, of equal ones the earlier."""
    of_day = _of(day)
    seen = {cohort_id: bool(own) for cohort_id, own in conn.execute(_SEEN, of_day)}
    gpu_us: dict[int, int] = {}
    for cohorts_of, table in ((_OWN, rollup_daily), (_IN_OTHER, contribution)):
        gpu_us |= _gpu_time(conn, cohorts_of, table, of_day)
    ranked = sorted(gpu_us, key=lambda cohort_id: (-gpu_us[cohort_id], cohort_id))
    return Moves(
        out=[cohort_id for cohort_id in ranked[most:] if seen[cohort_id]],
        back=[cohort_id for cohort_id in ranked[:most] if not seen[cohort_id]],
        gone=sorted(seen.keys() - gpu_us.keys()),
    )


def move(conn: Connection, day: ProjectDay, cohort_ids: Sequence[int], *, own: bool) -> int:
    """Give cohorts rollups of their *own*, or put them into ``other``; return how many it did.

    Those that another transaction is adding to are left for the next time.
    """
    taken = {
        cohort_id: bool(excluded)
        for cohort_id, has_own, excluded in _free(conn, day, cohort_ids)
        if bool(has_own) != own
    }
    deltas = RollupDeltas()
    others = {
        excluded: rollup_deltas.other(conn, day.project_id, excluded=excluded)
        for excluded in sorted(set(taken.values()))
    }
    for cell in _content(conn, day, taken) if taken else ():
        other = others[taken[cell.cohort_id]]
        source, target = (other, cell.cohort_id) if own else (cell.cohort_id, other)
        take, put = deltas.take, deltas.put
        if not cell.merged:
            take, put = put, take
        take(cell.hour_us, source, cell.sums, cell.tallies)
        put(cell.hour_us, target, cell.sums, cell.tallies)
    if taken:
        conn.execute(_SET, {**_named(day, taken), "own": own})
        rollup_deltas.write(conn, day.project_id, deltas.by_table(kept_from(conn)))
    return len(taken)


def forget(conn: Connection, day: ProjectDay, cohort_ids: Sequence[int]) -> None:
    """Forget that cohorts were seen on a day to which nothing of theirs is left."""
    free = {row.cohort_id for row in _free(conn, day, cohort_ids)}
    if free:
        seen = {cell.cohort_id for cell in _content(conn, day, free)}
        conn.execute(_FORGET, _named(day, free - seen))


def _gpu_time(
    conn: Connection, cohorts_of: Select[Any], table: Table, of_day: Mapping[str, Any]
) -> dict[int, int]:
    held: ColumnElement[int] = reduce(add, (table.c[name] for name in GPU_MEASURES))

    def made(summing: Summing) -> Summed:
        sums = summing({"gpu_us": held})
        return cohorts_of.add_columns(*sums.columns).group_by(cohort_day.c.cohort_id), sums

    rows, sums = summed_rows(conn, made, of_day)
    return {cohort_id: sums.read(columns).get("gpu_us", 0) for cohort_id, *columns in rows}


def _free(
    conn: Connection, day: ProjectDay, cohort_ids: Collection[int]
) -> Sequence[Row[*tuple[Any, ...]]]:
    return conn.execute(_FREE, _named(day, cohort_ids)).all()


class _Cell(NamedTuple):
    """What is, or is to be, in an hour of the rollups of a cohort."""

    cohort_id: int
    hour_us: int
    sums: Sums
    tallies: Tallies
    merged: bool


def _content(conn: Connection, day: ProjectDay, cohort_ids: Collection[int]) -> Iterator[_Cell]:
    """Read what jobs contribute to cohorts on a day, and what of it is not in the rollups yet."""
    for cohort_id, hour_at, text, *sums in map(
        tuple, conn.execute(_CONTENT, _named(day, cohort_ids))
    ):
        if cohort_id is not None:
            yield _Cell(cohort_id, hour_at, *amounts(Content(tuple(sums), text)), merged=True)
            continue
        for cell in rollup_deltas.decoded(text):
            if cell.cohort_id in cohort_ids and day_of(cell.hour_us) == day.day_us:
                yield _Cell(cell.cohort_id, cell.hour_us, cell.sums, cell.tallies, merged=False)


def _named(day: ProjectDay, cohort_ids: Iterable[int]) -> dict[str, Any]:
    return {**_of(day), "cohort_ids": list(cohort_ids)}


def _of(day: ProjectDay) -> dict[str, Any]:
    return {"of_project": day.project_id, "of_day": day.day_us}


class CohortCapping:
    """Checks full days one after the other, and moves cohorts in and out of ``other``.

    Between two checks a day may have more cohorts than *most*: those that came before any was in
    ``other``.
    """

    def __init__(self, store: Store, now_us: Callable[[], int], most: int) -> None:
        self._store = store
        self._now_us = now_us
        self._most = most
        self._due_us = 0
        self._days: list[ProjectDay] = []  #: still to be checked, the next one last

    def run_once(self) -> None:
        """Check some days if that is due."""
        began_us = self._now_us()
        if not self._days and began_us >= self._due_us:
            self._due_us = began_us + CAP_EVERY_US
            with self._store.reading() as conn:
                self._days = full_days(conn, self._most)[::-1]
        while self._days and self._now_us() - began_us <= _CAP_SLICE_US:
            self._settle(self._days.pop())

    def _settle(self, day: ProjectDay) -> None:
        with self._store.reading() as conn:
            moves = plan(conn, day, self._most)
        for cohort_ids, work in (
            (moves.out, partial(move, own=False)),
            (moves.back, partial(move, own=True)),
            (moves.gone, forget),
        ):
            for at in range(0, len(cohort_ids), _COHORTS_AT_ONCE):
                batch = cohort_ids[at : at + _COHORTS_AT_ONCE]
                self._store.write(partial(work, day=day, cohort_ids=batch))
