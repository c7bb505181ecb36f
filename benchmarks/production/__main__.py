"""``python -m benchmarks.production``: the speed of the service, each row beside its floor.

Every row is measured by the benchmark of its own, on empty databases, and beside what bare parts
reach in the same run. The whole takes about half an hour on two cores; ``--only`` chooses rows by
a part of their names. The shape of a run that is smaller than its claim stands in its row.

``--mlflow PYTHON`` is that of a virtual environment of its own in which ``pip install mlflow`` was
done. ``--citus COORDINATOR NODE NODE`` are addresses of PostgreSQL servers of this machine that
load citus: databases are made there and dropped; give it ``--seconds 20``, too. A row that cannot
be measured says why in its line, and misses no goal.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from benchmarks import ingest, recompute, rollups, scale
from benchmarks.freshness import databases
from benchmarks.production import nodes, tracker
from benchmarks.production.sustained import Sustained, sustained
from tests.builders.databases import postgres

GOAL_SUSTAINED, GOAL_LAG_S, GOAL_TRACKER = 0.9, 10.0, 10.0
FULL_ROWS, WHOLE_MINUTES, WHOLE_JOBS = 10_000_000, 5.0, 100_000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. *value* is None where it cannot be measured, as *beside* says."""

    work: str
    value: float | None
    goal: float
    beside: str  #: the floor of the same run, and what is smaller than the claim
    at_most: bool = False  #: whether the goal is a ceiling

    @property
    def met(self) -> bool:
        """Whether the goal is reached, or cannot be tried here."""
        if self.value is None:
            return True
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    def line(self) -> str:
        """Write it in a line."""
        value = "-" if self.value is None else f"{self.value:,.3g}"
        verdict = "" if self.met else "missed"
        bound = f"{'at most' if self.at_most else 'at least'} {self.goal:g}"
        return f"{self.work:44} {value:>8}  {bound:14} {verdict:7} {self.beside}"


Rows: TypeAlias = Iterator[Row]


def ingested(arguments: argparse.Namespace, kind: str) -> Rows:
    """Measure what is acknowledged on one store, and what else ``benchmarks.ingest`` knows."""
    with databases([]) as urls:
        for url in (url for url in urls if url.startswith(kind)):
            for name, result in ingest.measured(url, arguments):
                yield _ingested(name, result)


def _ingested(name: str, result: Mapping[str, float]) -> Row:
    if "bytes" in result:
        beside = "bytes with indexes, of events as trainers send them"
        return Row(name, result["bytes"], ingest.GOAL_BYTES, beside, at_most=True)
    beside = f"{result['events_per_s']:,.0f} events/s, {result['bare_per_s']:,.0f} bare beside them"
    if "most" in result:
        beside += f", {result['most']:.3g} where a server does nothing"
    return Row(name, result["ratio"], result["goal"], beside)


def steady(arguments: argparse.Namespace) -> Rows:
    """Measure minutes at four fifths of the ceiling, on each store."""
    with databases([]) as urls:
        for url in urls:
            yield from _steady(url.partition(":")[0], sustained(url, arguments.minutes), arguments)


def _steady(kind: str, result: Sustained, arguments: argparse.Namespace) -> Rows:
    beside = (
        f"{result.acknowledged:,.0f} events/s acknowledged and {result.folded:,.0f} folded of "
        f"{result.wanted:,.0f}, for {arguments.minutes:g} minutes"
    )
    if arguments.minutes < WHOLE_MINUTES:
        beside += f" of {WHOLE_MINUTES:g}"
    yield Row(f"{kind}, 80 % of the ceiling", result.ratio, GOAL_SUSTAINED, beside)
    beside = f"seconds, with a ceiling of {result.ceiling:,.0f} events/s"
    yield Row(f"{kind}, lag p99 at that", result.lag_s, GOAL_LAG_S, beside, at_most=True)


def scaled(arguments: argparse.Namespace) -> Rows:
    """Measure one worker and eight with a wire between them and PostgreSQL."""
    with scale.fleets(scale.DELAY_MS) as fleet:
        for shape in scale.COHORTS:
            result = scale.row(fleet, shape, 1, arguments.folds, arguments.rounds)
            beside = (
                f"{result['one']:.1f} to {result['many']:.1f} jobs/s with "
                f"{scale.DELAY_MS:g} ms on the wire, each worker one job at a time"
            )
            name = f"1 to {scale.MANY} workers, {shape}"
            yield Row(name, result["speed_up"], scale.GOAL_SPEED_UP, beside)
            cohorts = scale.COHORTS[shape]
            pace = scale.measured(fleet, f"{shape} trips", cohorts, 1, 0, arguments.folds)
            beside = f"with its share of picks and merges, of {arguments.folds} new jobs"
            name = f"round trips a fold, {shape}"
            yield Row(name, pace.trips_a_fold, scale.GOAL_TRIPS, beside, at_most=True)


def recomputed(arguments: argparse.Namespace) -> Rows:
    """Measure a recomputation from nothing on each store, in a database of its own."""
    with databases([]) as urls:
        for url in urls:
            result = recompute.measured(url, arguments.jobs, os.cpu_count() or 1)
            beside = (
                f"{result['new_s']:.1f} s, {result['floor_s']:.1f} s to read and sum the same rows"
                f" of {arguments.jobs:,} jobs"
            )
            if arguments.jobs < WHOLE_JOBS:
                beside += f", not {WHOLE_JOBS:,}"
            kind = url.partition(":")[0]
            yield Row(f"{kind}, full recompute", result["new_ratio"], recompute.GOAL, beside)


def kept_up(arguments: argparse.Namespace) -> Rows:
    """Measure the share of the rollups in a job's aggregation, the worst of all shapes."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for kind, pair in rollups.pairs(Path(folder), stack).items():
            shapes = rollups.measured(pair, arguments.upkeep_rounds)
            shape = max(shapes, key=lambda name: shapes[name]["share"])
            beside = (
                f"{shapes[shape]['with_us']:,.0f} us, {shapes[shape]['without_us']:,.0f} without: "
                f"{shape}, the largest share of {len(shapes)} shapes"
            )
            share = shapes[shape]["share"]
            yield Row(f"{kind}, upkeep of rollups", share, rollups.GOAL, beside, at_most=True)


def tracked(arguments: argparse.Namespace) -> Rows:
    """Measure MLflow's ``log-batch`` beside us."""
    work = "sqlite, of MLflow's log-batch"
    if arguments.mlflow is None:
        yield Row(work, None, GOAL_TRACKER, "needs --mlflow, the Python of an environment with it")
        return
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ett.db"
        rounds = tracker.rounds_of(arguments.mlflow, url, arguments.rounds, arguments.batches)
        result = ingest.medians(rounds)
    beside = f"{result['events_per_s']:,.0f} events/s, {result['bare_per_s']:,.0f} metrics/s"
    yield Row(work, result["ratio"], GOAL_TRACKER, beside)


def distributed(arguments: argparse.Namespace) -> Rows:
    """Measure one node of Citus and several, each of which takes its time for each request."""
    if not arguments.citus:
        beside = "needs --citus, the coordinator of Citus and its nodes"
        yield Row("Citus, 1 to 4 nodes", None, nodes.GOAL, beside)
        return
    coordinator, *others = arguments.citus
    measures: Mapping[str, Callable[[nodes.Nodes], float]] = {
        "jobs": lambda each: nodes.folded(each, arguments.folds),
        "events": lambda each: nodes.ingested(each, arguments.seconds),
    }
    with nodes.clusters(coordinator, others) as (one, every):
        for unit, measure in measures.items():
            rates = [(measure(one), measure(every)) for _ in range(arguments.rounds)]
            result = nodes.growth(rates, len(others))
            beside = (
                f"of linear: {result.one:,.1f} to {result.all:,.1f} {unit}/s, where each node "
                f"takes a request at a time, for {nodes.DELAY_MS:g} ms"
            )
            name = f"Citus, 1 to {len(others)} nodes, {unit}"
            yield Row(name, result.linear, nodes.GOAL, beside)


PARTS: Mapping[str, Callable[[argparse.Namespace], Rows]] = {
    "sqlite": lambda arguments: ingested(arguments, "sqlite"),
    "postgresql": lambda arguments: ingested(arguments, "postgresql"),
    "sustained": steady,
    "workers": scaled,
    "recompute": recomputed,
    "rollups": kept_up,
    "mlflow": tracked,
    "citus": distributed,
}
OF_POSTGRESQL = frozenset({"postgresql", "workers"})


def rows_of(names: Sequence[str], arguments: argparse.Namespace) -> Rows:
    """Measure parts, one after the other."""
    for name in names:
        if name in OF_POSTGRESQL and postgres.binaries() is None:
            yield Row(name, None, 1.0, postgres.MISSING)
        else:
            yield from PARTS[name](arguments)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 3 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.production", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be given several times")
    parser.add_argument("--minutes", type=float, default=WHOLE_MINUTES, help="of a steady load")
    parser.add_argument("--rows", type=int, default=1_000_000, help="events of a full PostgreSQL")
    parser.add_argument("--jobs", type=int, default=3_000, help="that are recomputed")
    parser.add_argument("--folds", type=int, default=400, help="of new jobs, by several workers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--upkeep-rounds", type=int, default=100, help="of each shape of a job")
    parser.add_argument("--batches", type=int, default=10, help="of each connection, in a round")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one-event requests, a round")
    parser.add_argument("--mlflow", metavar="PYTHON", help="of an environment with MLflow")
    parser.add_argument("--citus", nargs="+", metavar="URL", help="of a coordinator and its nodes")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    rows: list[Row] = []
    for row in rows_of(arguments.only or list(PARTS), arguments):
        rows.append(row)
        if not arguments.json:
            print(row.line(), flush=True)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
    return 0 if all(row.met for row in rows) else 3


if __name__ == "__main__":
    sys.exit(main())
