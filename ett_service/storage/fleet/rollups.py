"""Sums of the rollups over a window of time, by cohort and by step.

Whole days are read from the daily table, and what is left of the window at both ends from the
hourly one, while its hours are kept. SQL adds; who query divides.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    case,
    distinct,
    func,
    literal,
    or_,
    select,
)

from ett_service.core.fleet.measures import MEASURES
from ett_service.core.fleet.totals import Tally, Totals
from ett_service.core.intervals import DAY_US, MONDAY_US
from ett_service.storage import schema
from ett_service.storage.engine.statements import Summed, Summing, summed_rows
from ett_service.storage.fleet import hours
from ett_service.storage.schema import cohort, contribution, project

JOBS = "jobs"
"""Beside the measures, in every total: how many jobs lived in the bucket, each counted once."""

Group: TypeAlias = tuple[str, ...]
RollupPlace: TypeAlias = tuple[int | None, Group]
Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CohortFilter:
    """Which cohorts; what is empty asks nothing."""

    project_ids: tuple[int, ...] | None = None  #: None for those of all projects
    where: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    """Values by ``project`` or dimension, any of which will do; ``""`` is unknown."""
    exclusions: bool = False  #: whether excluded time is counted too


class _Piece(NamedTuple):
    """A part of the window that one grain of the rollups covers."""

    sums: Table
    tallies: Table
    jobs: str  #: the measure that counts jobs in the first bucket
    span: Span


@dataclass(slots=True)
class _Builder:
    """Totals to which rows are still added."""

    sums: Counter[str] = field(default_factory=Counter)
    counts: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    us: Counter[str] = field(default_factory=Counter)

    def totals(self) -> Totals:
        tallies = {name: Tally(counts, self.us[name]) for name, counts in self.counts.items()}
        return Totals(self.sums, tallies)


class _Shape(NamedTuple):
    """All of a query but its instants: queries of one shape have one statement."""

    project_ids: tuple[int, ...] | None
    where: tuple[tuple[str, ...], ...]  #: each a label's name and the values of it
    exclusions: bool
    group_by: tuple[str, ...]
    step: int | None
    cuts: tuple[int, ...]

    @property
    def cohort_filter(self) -> CohortFilter:
        """Which cohorts."""
        where = {name: frozenset(values) for name, *values in self.where}
        return CohortFilter(self.project_ids, where, self.exclusions)


@dataclass(frozen=True, slots=True)
class _Query:
    """The arguments of :func:`totals`."""

    cohort_filter: CohortFilter
    window: Span
    group_by: Sequence[str]
    step: int | None
    measures: Collection[str] = ()
    cuts: Sequence[int] = ()

    @property
    def width(self) -> int:
        """How many columns say what a row is of."""
        return len(self.group_by) + bool(self.cuts) + (self.step is not None)

    @property
    def shape(self) -> "_Shape":
        """What its statements are made of."""
        wanted = self.cohort_filter
        where = tuple((name, *sorted(values)) for name, values in sorted(wanted.where.items()))
        group_by, cuts = tuple(self.group_by), tuple(self.cuts)
        return _Shape(wanted.project_ids, where, wanted.exclusions, group_by, self.step, cuts)

    def place(self, row: Sequence[Any]) -> RollupPlace:
        """Return what the row is of."""
        labels = tuple(row[: self.width])
        return (None, labels) if self.step is None else (labels[-1], labels[:-1])


def totals(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    group_by: Sequence[str] = (),
    step: int | None = None,
    *,
    measures: Collection[str] = MEASURES,
    tallies: bool = True,
    cuts: Sequence[int] = (),
) -> dict[RollupPlace, Totals]:
    """Sum the rollups from ``window[0]`` to before ``window[1]``, both on full hours.

    The keys are ``(start of the bucket or None without a step, labels of the group)``. *step* is
    an hour, a day or a week in microseconds; buckets are UTC's, weeks begin on Monday, and the
    outer ones hold only what lies in the window. With *cuts*, ascending instants at midnight, a
    group's last label is how many of them lie at or before its time. Of the sums only *measures*
    are read, and ``JOBS``; without *tallies* no distributions are. What has no time is absent.

    Raises:
        HoursPruned: Hours are needed that are gone.
    """
    query = _Query(cohort_filter, window, group_by, step, measures, cuts)
    places: defaultdict[RollupPlace, _Builder] = defaultdict(_Builder)
    for piece in _pieces(conn, window, step):
        _add_sums(conn, piece, query, places)
        if tallies:
            _add_tallies(conn, piece, query, places)
    return {place: builder.totals() for place, builder in places.items() if builder.sums}


def distributions(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    group_by: Sequence[str] = (),
    step: int | None = None,
) -> dict[RollupPlace, Totals]:
    """Read the tallies of a window alone; for the arguments see :func:`totals`."""
    query = _Query(cohort_filter, window, group_by, step)
    places: defaultdict[RollupPlace, _Builder] = defaultdict(_Builder)
    for piece in _pieces(conn, window, step):
        _add_tallies(conn, piece, query, places)
    return {place: builder.totals() for place, builder in places.items()}


def places(
    conn: Connection,
    cohort_filter: CohortFilter,
    window: Span,
    group_by: Sequence[str],
    step: int | None,
    *,
    most: int,
) -> int:
    """Count the places of :func:`totals`, up to *most* of them; those without time count, too."""
    query = _Query(cohort_filter, window, group_by, step)
    places: set[tuple[Any, ...]] = set()
    for piece in _pieces(conn, window, step):
        statement = _grouped(piece.sums, query.shape, [], []).limit(most)
        places.update(map(tuple, conn.execute(statement, _instants(piece, query))))
    return min(most, len(places))


def _add_sums(
    conn: Connection, piece: _Piece, query: _Query, places: defaultdict[RollupPlace, _Builder]
) -> None:
    made = partial(_sums, piece.sums, piece.jobs, query.shape, tuple(query.measures))
    rows, sums = summed_rows(conn, made, _instants(piece, query))
    for row in rows:
        places[query.place(row)].sums.update(sums.read(row[query.width :]))


def _add_tallies(
    conn: Connection, piece: _Piece, query: _Query, places: defaultdict[RollupPlace, _Builder]
) -> None:
    made = partial(_tallies, piece.tallies, query.shape)
    rows, length = summed_rows(conn, made, _instants(piece, query))
    if not rows:
        return
    width = query.width
    columns = list(zip(*rows, strict=True))
    labels, where, counts = columns[: width + 1], columns[width + 1], columns[width + 2]
    lengths = map(length.only, zip(*columns[width + 3 :], strict=True))
    latest, tally, us_of = None, Counter[int](), Counter[str]()
    for key, place, count, us in zip(
        zip(*labels, strict=True), where, counts, lengths, strict=True
    ):
        if key != latest:  # rows of one tally lie together
            builder, latest = places[query.place(key)], key
            tally, us_of = builder.counts[key[-1]], builder.us
        tally[place] = tally.get(place, 0) + int(count)
        us_of[key[-1]] += us


def _instants(piece: _Piece, query: _Query) -> dict[str, int]:
    start_us, end_us = piece.span
    return {"window_us": query.window[0], "start_us": start_us, "end_us": end_us}


STATEMENTS = 64
"""So many are kept: making one takes longer than the database does for a week of a small fleet."""


@lru_cache(STATEMENTS)
def _sums(
    table: Table, jobs: str, shape: _Shape, measures: tuple[str, ...], summing: Summing
) -> Summed:
    first = _is_first(table, shape.step)
    counted = case((first, table.c[jobs]), else_=table.c.jobs_started)
    amounts = {JOBS: counted, **{name: table.c[name] for name in measures}}
    sums = summing(amounts)
    return _grouped(table, shape, [], sums.columns), sums


@lru_cache(STATEMENTS)
def _tallies(table: Table, shape: _Shape, summing: Summing) -> Summed:
    keys = [("name", table.c.name), ("place", table.c.place)]
    length = summing({"us": table.c.us})
    return _grouped(table, shape, keys, [func.sum(table.c.count), *length.columns]), length


def cohorts_in_other(conn: Connection, cohort_filter: CohortFilter, window: Span) -> int:
    """Count the cohorts, as they would be without the cap, whose time lies in ``other``."""
    day = schema.cohort_day
    from_us, to_us = window
    statement = (
        select(func.count(distinct(day.c.cohort_id)))
        .join_from(day, cohort, day.c.cohort_id == cohort.c.id)
        .join(project, project.c.id == cohort.c.project_id)
        .where(
            of_projects(day.c.project_id, cohort_filter),
            day.c.day_us > from_us - DAY_US,
            day.c.day_us < to_us,
            day.c.kept.is_(False),
            *conditions(cohort_filter),
        )
    )
    return conn.scalar(statement) or 0


def conditions(cohort_filter: CohortFilter) -> Iterator[ColumnElement[bool]]:
    """Say in SQL which rows of ``cohort`` joined with ``project`` are meant."""
    if cohort_filter.project_ids is not None:
        yield cohort.c.project_id.in_(cohort_filter.project_ids)
    for name, values in sorted(cohort_filter.where.items()):
        yield label(name).in_(sorted(values))
    if cohort_filter.where.keys() - {"project"}:
        # Its dimensions are empty, which would read as unknown.
        yield cohort.c.other.is_(False)
    if not cohort_filter.exclusions:
        yield cohort.c.excluded.is_(False)


def label(name: str) -> ColumnElement[str]:
    """Return the column of a label, as text, of ``cohort`` joined with ``project``."""
    if name == "project":
        return project.c.name
    if name in ("other", "excluded"):
        return case((cohort.c[name].is_(True), literal("1")), else_=literal(""))
    return cohort.c[name]


def start_of(at_us: ColumnElement[int], step_us: int) -> ColumnElement[int]:
    """Return the start of the hour, the day or the ISO week, of UTC, in which an instant lies.

    It is counted from before every instant: in SQL the remainder of what is negative is negative.
    """
    return at_us - (at_us - MONDAY_US) % step_us


def contributed(
    columns: Iterable[ColumnElement[Any]], cohort_filter: CohortFilter, window: Span | None = None
) -> Select[Any]:
    """Select of the contributions of wanted cohorts, in a *window* of full hours."""
    statement = (
        select(*columns)
        .join_from(contribution, cohort, contribution.c.cohort_id == cohort.c.id)
        .join(project, project.c.id == cohort.c.project_id)
        .where(*conditions(cohort_filter))
    )
    return statement if window is None else statement.where(within(window))


def in_wanted_cohorts(
    columns: Iterable[ColumnElement[Any]], cohort_filter: CohortFilter, window: Span
) -> Select[Any]:
    """Select the same by the index of contributions by cohort and hour."""
    in_cohorts = select(cohort.c.id).join(project, project.c.id == cohort.c.project_id)
    return contributed(columns, cohort_filter, window).where(
        of_projects(contribution.c.project_id, cohort_filter),
        contribution.c.cohort_id.in_(in_cohorts.where(*conditions(cohort_filter)).correlate(None)),
    )


def within(window: Span) -> ColumnElement[bool]:
    """Whether a contribution lies in a window of full hours."""
    return and_(contribution.c.hour_us >= window[0], contribution.c.hour_us < window[1])


def _pieces(conn: Connection, window: Span, step: int | None) -> Iterator[_Piece]:
    hours.require(conn, window, step)
    days, ends = hours.cut(window, step)
    if days is not None:
        yield _Piece(schema.rollup_daily, schema.tally_daily, "jobs_day", days)
    for end in ends:
        yield _Piece(schema.rollup_hourly, schema.tally_hourly, "jobs_hour", end)


def _times(
    table: Table, step: int | None, cuts: Sequence[int]
) -> list[tuple[str, ColumnElement[Any]]]:
    """Name what a row's start is grouped by."""
    start: ColumnElement[int] = table.c.start_us
    times: list[tuple[str, ColumnElement[Any]]] = []
    if cuts:
        ladder = [(start < cut, literal(str(place))) for place, cut in enumerate(cuts)]
        times.append(("cut", case(*ladder, else_=literal(str(len(cuts))))))
    if step is not None:
        times.append(("bucket", start_of(start, step)))
    return times


def _is_first(table: Table, step: int | None) -> ColumnElement[bool]:
    start: ColumnElement[int] = table.c.start_us
    begins = start == bindparam("window_us")
    return begins if step is None else or_(begins, start == start_of(start, step))


def _grouped(
    table: Table,
    shape: _Shape,
    more: Sequence[tuple[str, ColumnElement[Any]]],
    columns: Sequence[ColumnElement[Any]],
) -> Select[Any]:
    """Sum by cohort, and only then by what cohorts are called: numbers are sooner compared."""
    keys = [*_times(table, shape.step, shape.cuts), *more]
    wanted = shape.cohort_filter
    in_cohorts = select(cohort.c.id).join(project, project.c.id == cohort.c.project_id)
    # By name: PostgreSQL takes two equal expressions for two where they hold parameters.
    by_cohort = (
        select(
            *([table.c.cohort_id] if shape.group_by else []),
            *(key.label(name) for name, key in keys),
            *(column.label(f"sum_{place}") for place, column in enumerate(columns)),
        )
        .where(
            of_projects(table.c.project_id, wanted),
            table.c.start_us >= bindparam("start_us"),
            table.c.start_us < bindparam("end_us"),
            table.c.cohort_id.in_(in_cohorts.where(*conditions(wanted))),
        )
        .group_by(*([table.c.cohort_id] if shape.group_by else []), *(name for name, _ in keys))
    )
    if not shape.group_by:
        return by_cohort
    of_cohort = by_cohort.subquery()
    labels = [label(name).label(f"label_{place}") for place, name in enumerate(shape.group_by)]
    times = [of_cohort.c[name] for name, _ in keys]
    sums = [func.sum(of_cohort.c[f"sum_{place}"]) for place in range(len(columns))]
    columns = [*labels, *times, *sums]
    return (
        select(*columns)
        .join_from(of_cohort, cohort, of_cohort.c.cohort_id == cohort.c.id)
        .join(project, project.c.id == cohort.c.project_id)
        .group_by(*(column.name for column in labels), *times)
    )


def of_projects(project_id: ColumnElement[int], cohort_filter: CohortFilter) -> ColumnElement[bool]:
    """Say of what keys begin with whose it may be; of all projects, too, or no key were used."""
    if cohort_filter.project_ids is None:
        return project_id.in_(select(project.c.id))
    return project_id.in_(cohort_filter.project_ids)
