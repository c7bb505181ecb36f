"""Fill an empty store with many jobs: the folded jobs of a demo fleet, copied day by day.

Only what pages read is written, in the shape that folding gives: ledgers, segments, shares,
recoveries, checkpoints, contributions and rollups, but neither events nor stages. The copies are
of the jobs of under three hours, moved by whole days, so that every sum is that of its parts.
A job takes 9 kB, so 90 days of ten thousand jobs a day take 8 GB, and of a hundred thousand 83 GB.
"""

import argparse
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, func, select, text

from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.storage import schema
from ett_service.storage.engine import statements
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_for_reading, open_store
from ett_service.storage.fleet.contributions import decoded

SHORT_US = 3 * HOUR_US
JOBS_AT_ONCE = 2_000
TABLES = (
    schema.job,
    schema.job_ledger,
    schema.attempt_ledger,
    schema.segment,
    schema.share,
    schema.recovery,
    schema.checkpoint,
    schema.contribution,
)
_WHOLE = (schema.project, schema.cohort, schema.marker)
_INSTANTS = frozenset(
    {"received_us", "folded_us", "as_of_us", "started_us", "ended_us", "saved_us", "hour_us"}
)
_AN_INSTANT = re.compile(r"(?<![\d.])(1[78]\d{14})(?![\d.])")

Row: TypeAlias = tuple[Any, ...]
Cells: TypeAlias = dict[tuple[Any, ...], NDArray[np.int64]]
"""Amounts by the start of an hour or a day, by cohort, and those of tallies by name and place."""


@dataclass(slots=True)
class TemplateJob:
    """A folded job, by table."""

    name: str
    started_us: int
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def moved(self, table: Table, name: str, by_us: int) -> Iterator[Row]:
        """Yield its rows of a table under another name, and later."""
        places = [column.name in _INSTANTS for column in table.c]
        answer = table.c.keys().index("answer") if "answer" in table.c else None
        for row in self.rows[table.name]:
            values = [
                value + by_us if is_instant and value is not None else value
                for value, is_instant in zip(row, places, strict=True)
            ]
            values[1] = name
            if answer is not None:
                values[answer] = _AN_INSTANT.sub(lambda at: str(int(at[1]) + by_us), row[answer])
            yield tuple(values)


def main() -> int:
    """Fill the store, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("demo", type=Path, help="where `ett demo --directory` kept a fleet")
    parser.add_argument("url", help="of the database to be filled")
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--jobs-a-day", type=int, default=10_000)
    args = parser.parse_args()
    began = time.monotonic()
    fill(args.demo / "ett.db", args.url, args.days, args.jobs_a_day)
    jobs = args.days * args.jobs_a_day
    print(f"{jobs:,} jobs in {time.monotonic() - began:,.0f} s, {size_of(args.url) / 1e9:,.1f} GB")
    return 0


def fill(demo: Path, url: str, days: int, jobs_a_day: int) -> None:
    """Copy the short jobs of *demo* into a new store until *days* ending today are full."""
    migrate(url)
    with (
        closing(open_for_reading(f"sqlite:///{demo}")) as source,
        source.reading() as conn,
        closing(open_store(url)) as store,
    ):
        whole = {table: _all(conn, table) for table in _WHOLE}
        store.write(lambda into: _put_all(into, whole))
        template = template_of(conn)
        today = time.time_ns() // 1000 // DAY_US
        for day in range(today - days + 1, today + 1):
            _fill_day(store, template, day, jobs_a_day)
        _roll_up(store, template, range(today - days + 1, today + 1), jobs_a_day)
        store.write(_prepare)


def _all(conn: Connection, table: Table) -> list[Row]:
    return list(map(tuple, conn.execute(select(table))))


def template_of(conn: Connection) -> list[TemplateJob]:
    """Read the short jobs that are over, with all their rows."""
    ledger = schema.job_ledger.c
    short = select(ledger.job, ledger.started_us).where(
        ledger.state == "finished", ledger.e2e_us < SHORT_US
    )
    jobs = {job: TemplateJob(job, started_us) for job, started_us in conn.execute(short)}
    for table in TABLES:
        for row in _all(conn, table):
            if row[1] in jobs:
                jobs[row[1]].rows[table.name].append(row)
    return list(jobs.values())


def _copies(template: Sequence[TemplateJob], jobs_a_day: int) -> Iterator[tuple[TemplateJob, int]]:
    for number in range(jobs_a_day):
        yield template[number % len(template)], number // len(template)


def _moved_us(each: TemplateJob, day: int) -> int:
    return (day - each.started_us // DAY_US) * DAY_US


def _fill_day(store: Store, template: Sequence[TemplateJob], day: int, jobs_a_day: int) -> None:
    jobs = [(each, f"{each.name}-{day}-{copy}") for each, copy in _copies(template, jobs_a_day)]
    for start in range(0, len(jobs), JOBS_AT_ONCE):
        some = jobs[start : start + JOBS_AT_ONCE]

        moved = {
            table: [
                row for each, name in some for row in each.moved(table, name, _moved_us(each, day))
            ]
            for table in TABLES
        }
        store.write(partial(_put_all, rows=moved))


def _put_all(conn: Connection, rows: Mapping[Table, list[Row]]) -> None:
    for table, of_table in rows.items():
        _put(conn, table, of_table)


def _put(conn: Connection, table: Table, rows: list[Row]) -> None:
    """Insert rows of all columns: those of the key come first."""
    keys = [column.name for column in table.primary_key]
    names = [column.name for column in table.c]
    order = [*keys, *(name for name in names if name not in keys)]
    places = [names.index(name) for name in order]
    ordered = [tuple([row[place] for place in places]) for row in rows]
    statements.insert(conn, table, tuple(order[len(keys) :]), ordered)


def _roll_up(store: Store, template: Sequence[TemplateJob], days: range, jobs_a_day: int) -> None:
    """Write the sums of all contributions, made from those of one day: every day's are alike."""
    copies = Counter(id(each) for each, _ in _copies(template, jobs_a_day))
    sums, tallies = _of_one_day(template, copies)
    for step, of_sums, of_tallies in (
        (HOUR_US, schema.rollup_hourly, schema.tally_hourly),
        (DAY_US, schema.rollup_daily, schema.tally_daily),
    ):
        cells = _on_days(sums, days, step)
        counts = _on_days(tallies, days, step)
        rows = {
            of_sums: [(1, *cell, *map(int, amounts)) for cell, amounts in sorted(cells.items())],
            of_tallies: [(1, *cell, *map(int, pair)) for cell, pair in sorted(counts.items())],
        }
        if step == DAY_US:
            rows[schema.cohort_day] = [(1, *cell, True) for cell in sorted(cells)]
        store.write(partial(_put_all, rows=rows))


def _of_one_day(template: Sequence[TemplateJob], copies: Mapping[int, int]) -> tuple[Cells, Cells]:
    """Sum what the jobs of a day add, by microseconds from its midnight and by cohort."""
    names = schema.contribution.c.keys()
    hour, cohort, tallies = (names.index(name) for name in ("hour_us", "cohort_id", "tallies"))
    measures = [names.index(name) for name in MEASURES]
    sums: Cells = defaultdict(lambda: np.zeros(len(MEASURES), np.int64))
    counts: Cells = defaultdict(lambda: np.zeros(2, np.int64))
    for each in template:
        for row in each.rows[schema.contribution.name]:
            at = row[hour] + _moved_us(each, 0)
            amounts = np.array([row[place] for place in measures], np.int64)
            sums[at, row[cohort]] += copies[id(each)] * amounts
            for name, places in decoded(row[tallies]).items():
                for place, pair in places.items():
                    counts[at, row[cohort], name, place] += copies[id(each)] * np.array(pair)
    return sums, counts


def _on_days(of_one_day: Cells, days: range, step: int) -> Cells:
    """Move the cells of one day to each of the days, and add up those of one hour or day."""
    moved: Cells = {}
    for (at, *rest), amounts in of_one_day.items():
        for day in days:
            cell = (day * DAY_US + at // step * step, *rest)
            moved[cell] = moved[cell] + amounts if cell in moved else amounts
    return moved


def _prepare(conn: Connection) -> None:
    if conn.dialect.name == "postgresql":
        conn.execute(text("ANALYZE"))


def size_of(url: str) -> int:
    """Return the bytes of the database."""
    with closing(open_for_reading(url)) as store, store.reading() as conn:
        if conn.dialect.name == "postgresql":
            return int(conn.scalar(select(func.pg_database_size(func.current_database()))) or 0)
        pages, page = (
            conn.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("page_count", "page_size")
        )
        return int(pages or 0) * int(page or 0)


if __name__ == "__main__":
    sys.exit(main())
