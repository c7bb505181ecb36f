"""What hours of the rollups take: bytes of a cohort's hour, a year of many cohorts, time to prune.

The hours of a demo fleet, sums and tallies, are given in turn to the cohorts of a new store of
each kind, so that each has some in every hour of some days. Half of the days are pruned then, in
steps as the worker does.
"""

import argparse
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection, insert, select

from benchmarks.freshness import databases
from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.storage import sizes
from ett_service.storage.engine import statements
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_for_reading, open_store
from ett_service.storage.fleet import hours
from ett_service.storage.record.keys import create_project
from ett_service.storage.retention import ROWS_AT_ONCE
from ett_service.storage.schema import cohort, rollup_hourly, tally_hourly

Values: TypeAlias = tuple[Any, ...]
Cell: TypeAlias = tuple[Values, Sequence[Values]]
"""The sums of a cohort's hour, and its tallies, each with name and place."""

_KEY = 3  #: columns of a cell's key


def cells_of(url: str) -> list[Cell]:
    """Read every hour of every cohort of a store."""
    tallies: defaultdict[Values, list[Values]] = defaultdict(list)
    with closing(open_for_reading(url)) as store, store.reading() as conn:
        for row in map(tuple, conn.execute(select(tally_hourly))):
            tallies[row[:_KEY]].append(row[_KEY:])
        return [
            (row[_KEY:], tallies[row[:_KEY]])
            for row in map(tuple, conn.execute(select(rollup_hourly)))
        ]


def fill(store: Store, cells: Iterator[Cell], cohorts: int, days: range) -> int:
    """Give each cohort an hour after the other; return how many tallies there are."""
    project_id = store.write(lambda conn: create_project(conn, "large", 0))
    rows = [
        {"id": number, "project_id": project_id, "excluded": False, "other": False}
        | {name: f"{name} {number}" for name in DIMENSIONS}
        for number in range(1, cohorts + 1)
    ]
    store.write(lambda conn: conn.execute(insert(cohort), rows))
    counted = 0
    for day in days:
        sums: list[Values] = []
        tallies: list[Values] = []
        for hour, number in itertools.product(range(24), range(1, cohorts + 1)):
            key = (project_id, day * DAY_US + hour * HOUR_US, number)
            amounts, of_cell = next(cells)
            sums.append((*key, *amounts))
            tallies += [(*key, *tally) for tally in of_cell]
        store.write(partial(_put, sums=sums, tallies=tallies))
        counted += len(tallies)
    return counted


def _put(conn: Connection, sums: Sequence[Values], tallies: Sequence[Values]) -> None:
    for table, rows in ((rollup_hourly, sums), (tally_hourly, tallies)):
        names = table.c.keys()[len(table.primary_key) :]
        statements.insert(conn, table, tuple(names), rows)


def prune(store: Store, before_us: int) -> list[float]:
    """Prune hours step by step; return the seconds of each."""
    store.write(partial(hours.move_horizon, before_us=before_us))
    seconds = []
    deleted = 1
    while deleted:
        began = time.perf_counter()
        deleted = store.write(partial(hours.prune, most=ROWS_AT_ONCE))
        seconds.append(time.perf_counter() - began)
    return seconds


def measure(url: str, cells: Sequence[Cell], cohorts: int, days: int) -> None:
    """Fill a store, and print what it takes."""
    migrate(url)
    today = time.time_ns() // 1_000 // DAY_US
    with closing(open_store(url)) as store:
        with store.reading() as conn:
            empty = sizes.table_sizes(conn)
        tallies = fill(store, itertools.cycle(cells), cohorts, range(today - days, today))
        with store.reading() as conn:
            full = sizes.table_sizes(conn)
        seconds = prune(store, (today - days // 2) * DAY_US)
    n_cells = days * 24 * cohorts
    each = [(full[of.name] - empty[of.name]) / n_cells for of in hours.PRUNED_TABLES]
    year = sum(each) * cohorts * 24 * 365 / (1 << 30)
    print(
        f"{store.dialect}: a cohort's hour takes {each[0]:.0f} bytes of sums and {each[1]:.0f} of "
        f"{tallies / n_cells:.1f} tallies, a year of {cohorts} cohorts {year:.1f} GiB"
    )
    print(
        f"  {days // 2} days pruned in {sum(seconds):.1f} s: {len(seconds)} steps of "
        f"{statistics.median(seconds) * 1e3:.0f} ms, {max(seconds) * 1e3:.0f} at most"
    )


def main() -> int:
    """Measure both stores; there is no goal to miss."""
    parser = argparse.ArgumentParser(description="Print what hours of the rollups take.")
    parser.add_argument("demo", type=Path, help="where `ett demo --directory` kept a fleet")
    parser.add_argument("--cohorts", type=int, default=500)
    parser.add_argument("--days", type=int, default=60)
    args = parser.parse_args()
    cells = cells_of(f"sqlite:///{args.demo / 'ett.db'}")
    with databases([]) as urls:
        for url in urls:
            measure(url, cells, args.cohorts, args.days)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
