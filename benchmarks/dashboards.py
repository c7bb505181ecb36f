"""How long a dashboard waits for PostgreSQL, from rollups and from the ledgers below them.

90 days of daily rollups in 500 cohorts are made up, 100,000 jobs a day, with their distributions.
Each query is asked as the API asks it. The floor is `SELECT 1`. The answers for one of those days
are then taken from its raw ledgers in SQL, and from the rollups again: 90 days of raw ledgers do
not fit on a small disk, and nothing is scaled up.
"""

import argparse
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from rich.progress import track
from sqlalchemy import Connection, text

from ett_service.api.app import settle
from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.fleet.totals import Totals, place
from ett_service.core.words import Category
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.fleet.rollups import CohortFilter, totals
from ett_service.storage.folded_jobs import RowChanges
from ett_service.storage.record.keys import create_project
from tests.builders.databases import postgres

GOAL_SECONDS, GOAL_RATIO = 0.1, 20.0
SECOND = 1_000_000
DAY = 86_400 * SECOND
START = 1_760_000_000 * SECOND // DAY * DAY
DAYS, JOBS_A_DAY, TEAMS, MODELS = 90, 100_000, 25, 20
COHORTS = TEAMS * MODELS
GPUS, SEGMENTS = 8, 12
TALLIES = ("time_to_start", "time_to_recover", "checkpoint_blocking", "phase:pt2_compile")
PLACES = 12
WEIGHTED = tuple(f"{category}_weighted_us" for category in Category)
WINDOW = (START, START + DAYS * DAY)
FIRST_DAY = (START, START + DAY)

_LONG = "SET LOCAL statement_timeout = 0"
_RAW = """
    SELECT {keys}, job_ledger.team, job_ledger.model,
           SUM(CASE WHEN segment.category = 'effective_training' THEN part.us ELSE 0 END
               * attempt_ledger.gpus),
           SUM(part.us * attempt_ledger.gpus)
    FROM segment
    JOIN attempt_ledger USING (project_id, job, number)
    JOIN job_ledger USING (project_id, job)
    CROSS JOIN LATERAL generate_series(
        segment.started_us / {day}, (segment.ended_us - 1) / {day}) AS of_day(number)
    CROSS JOIN LATERAL (SELECT LEAST(segment.ended_us, (of_day.number + 1) * {day})
        - GREATEST(segment.started_us, of_day.number * {day})) AS part(us)
    WHERE segment.started_us < :to_us AND segment.ended_us > :from_us {where}
    GROUP BY 1, 2, 3
"""


def rollups(chance: random.Random, project_id: int, day: int) -> RowChanges:
    """Make up a day's rollups and distributions, of jobs that are much alike."""
    changes = RowChanges()
    for cohort_id in range(1, COHORTS + 1):
        jobs = JOBS_A_DAY // COHORTS
        amount = {name: chance.randrange(jobs * 60 * SECOND) for name in MEASURES}
        amount |= {"jobs_day": jobs, "jobs_started": jobs, "attempts": 2 * jobs, "cells": jobs}
        key = (project_id, START + day * DAY, cohort_id)
        changes.new["rollup_daily"].append((*key, *amount.values()))
        for name in TALLIES:
            first = place(chance.randrange(1, 600) * SECOND)
            changes.new["tally_daily"] += [
                (*key, name, first + each, jobs // PLACES, jobs * SECOND) for each in range(PLACES)
            ]
    return changes


def cohorts(project_id: int) -> RowChanges:
    """Make the cohorts of every team and model."""
    changes = RowChanges()
    for number in range(COHORTS):
        of = {"team": f"team-{number % TEAMS}", "model": f"model-{number // TEAMS}"}
        dimensions = [of.get(name, "") for name in DIMENSIONS]
        changes.new["cohort"].append((number + 1, project_id, *dimensions, False, False))
    return changes


def ledgers(chance: random.Random, project_id: int, jobs: range) -> RowChanges:
    """Make up jobs of the first day, each an attempt of twelve segments."""
    changes = RowChanges()
    for number in jobs:
        name = f"job-{number:07}"
        at = START + chance.randrange(DAY)
        length = chance.randrange(600, 7200) * SECOND
        facts = (name, f"team-{number % TEAMS}", f"model-{number // TEAMS % MODELS}")
        counts = (None, None, "training", None, GPUS, 0, 0, 0, "{}")
        head = (1, 1, 100, at, "finished", at, None, at, at + length, length, length, 0, None)
        changes.new["job"].append((project_id, name, at))
        changes.new["job_ledger"].append((project_id, name, *head, 0, 0, 0, *facts, *counts))
        life = (0, "", 0, 0, at, at + length, "completed", None, None, GPUS, None)
        rest = (length, 0, None, None, None, None, False, "{}")
        changes.new["attempt_ledger"].append((project_id, name, *life, *rest))
        edges = [at + length * each // SEGMENTS for each in range(SEGMENTS + 1)]
        for each, (begin, end) in enumerate(itertools.pairwise(edges)):
            category = "effective_training" if each % 2 else "checkpoint_blocking"
            changes.new["segment"].append((project_id, name, begin, end, category, "training", 0))
    return changes


def fill(store: Store, jobs: int) -> int:
    """Fill the store, and return the project's id."""
    chance = random.Random(7)
    project_id = store.write(lambda conn: create_project(conn, "fleet", START))
    store.write(cohorts(project_id).write)
    for day in track(range(DAYS), "rollups", transient=True):
        store.write(rollups(chance, project_id, day).write)
    for first in track(range(0, jobs, 5000), "ledgers", transient=True):
        some = range(first, min(first + 5000, jobs))
        store.write(ledgers(chance, project_id, some).write)
    store.write(lambda conn: conn.execute(text("ANALYZE")))
    return project_id


Question = tuple[Callable[[Connection], object], dict[str, Any]]


def questions(project_id: int, window: tuple[int, int]) -> dict[str, Question]:
    """Return by name how each answer is taken from rollups, and the parameters of the raw query."""

    def rolled_up(cohorts: CohortFilter, *by: str, step: int | None = None) -> Callable[..., Any]:
        return lambda conn: totals(
            conn, cohorts, window, by, step, measures=WEIGHTED, tallies=False
        )

    def lost_most(conn: Connection) -> list[tuple[object, Totals]]:
        sums = rolled_up(all_of_it, "team", "model")(conn)
        return sorted(sums.items(), key=lambda group: -group[1].lost_weighted_us)[:20]

    all_of_it = CohortFilter((project_id,))
    of_team = CohortFilter((project_id,), {"team": frozenset({"team-3"})})
    team = "AND job_ledger.team = 'team-3'"
    return {
        "trend": (rolled_up(all_of_it, step=DAY), {"keys": "of_day.number", "by": ()}),
        "by team": (rolled_up(all_of_it, "team"), {"keys": "1", "by": ("team",)}),
        "one team by model": (rolled_up(of_team, "model"), {"keys": "1", "where": team}),
        "top 20 by lost time": (lost_most, {"keys": "1"}),
    }


def raw(keys: str, where: str = "", **_: object) -> Callable[[Connection], object]:
    """Return the query that gives an answer from segments and attempts."""
    statement = text(_RAW.format(keys=keys, where=where, day=DAY))

    def run(conn: Connection) -> object:
        conn.execute(text(_LONG))
        return conn.execute(statement, {"from_us": FIRST_DAY[0], "to_us": FIRST_DAY[1]}).all()

    return run


def taken(store: Store, ask: Callable[[Connection], object], runs: int) -> Iterator[float]:
    """Yield the seconds of each run, from taking a connection to having the answer."""
    for _ in range(runs):
        began = time.perf_counter()
        with store.reading() as conn:
            ask(conn)
        yield time.perf_counter() - began


def measured(store: Store, jobs: int, runs: int) -> dict[str, dict[str, float]]:
    """Time every query beside the floor, and the raw one."""
    project_id = fill(store, jobs)
    settle()
    times: dict[str, dict[str, float]] = {}
    of_day = questions(project_id, FIRST_DAY)
    for name, (ask, of_raw) in questions(project_id, WINDOW).items():
        list(taken(store, ask, 3))
        hundredths = statistics.quantiles(taken(store, ask, runs), n=100, method="inclusive")
        slow = min(taken(store, raw(**of_raw), 3))
        quick = statistics.median(taken(store, of_day[name][0], runs))
        floor = statistics.median(taken(store, lambda conn: conn.execute(text("SELECT 1")), runs))
        times[name] = {
            "p50_s": hundredths[49],
            "p99_s": hundredths[98],
            "floor_s": floor,
            "day_raw_s": slow,
            "day_p50_s": quick,
            "ratio": slow / quick,
        }
    return times


def main() -> int:
    """Print what was measured; 3 if a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS_A_DAY, help="with raw ledgers")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    programs = postgres.binaries()
    if programs is None:
        print(postgres.MISSING, file=sys.stderr)
        return 0
    with postgres.server(programs) as server:
        url = urlsplit(server)._replace(scheme="postgresql+psycopg").geturl()
        migrate(url)
        with closing(open_store(url)) as store:
            results = measured(store, arguments.jobs, arguments.runs)
    if arguments.json:
        print(json.dumps(results))
    else:
        print(f"{DAYS} days, {COHORTS} cohorts; raw: {arguments.jobs} jobs of one day")
        for name, row in results.items():
            print(
                f"{name:20} p50 {row['p50_s'] * 1000:6.1f} ms  p99 {row['p99_s'] * 1000:6.1f} ms"
                f"  (goal: p99 under {GOAL_SECONDS * 1000:.0f} ms)"
                f"  floor {row['floor_s'] * 1000:.1f} ms"
                f"  one day {row['day_p50_s'] * 1000:.1f} ms, from raw ledgers"
                f" {row['day_raw_s']:.2f} s: {row['ratio']:.0f} times (goal {GOAL_RATIO:.0f})"
            )
    met = all(
        times["p99_s"] < GOAL_SECONDS and times["ratio"] >= GOAL_RATIO for times in results.values()
    )
    return 0 if met else 3


if __name__ == "__main__":
    sys.exit(main())
