"""``ett migrate | verify | recompute``: the database that the settings name, and its numbers."""

import os
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any

from ett_service.aggregation.recompute import recompute
from ett_service.aggregation.verify import Difference, RollupDifference, verify, verify_rollups
from ett_service.cli.arguments import config, whole
from ett_service.cli.operations.local import loaded, opened_for_reading
from ett_service.cli.output import or_dash, write_line
from ett_service.cli.progress import bar, counted
from ett_service.cli.tables import identifier, prose, text, write_table
from ett_service.cli.verb import Exit, Verb, now_us
from ett_service.logs import redact
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.jobs.batches import RecomputePosition, pruned


def _migrate(args: Namespace) -> Any:
    url = loaded(args).settings.database_url
    migrate(url)
    return {"database": redact(url), "schema": "newest"}


def _write_migrated(answer: Any, _args: Namespace) -> None:
    write_line(f"{answer['database']} has the latest schema.")


MIGRATE = Verb(options=(config,), run=_migrate, write=_write_migrated)


@dataclass(frozen=True, slots=True)
class _Row:
    """A difference; ``job`` is None in the rollups, which are of all jobs."""

    project_id: int
    job: str | None
    what: str
    stored: object
    recomputed: object

    @classmethod
    def of_job(cls, difference: Difference) -> "_Row":
        return cls(*difference.key, difference.what, difference.stored, difference.recomputed)

    @classmethod
    def of_rollups(cls, difference: RollupDifference) -> "_Row":
        return cls(
            difference.project_id,
            None,
            difference.what,
            difference.stored,
            difference.recomputed,
        )


@dataclass(frozen=True, slots=True)
class _Comparison:
    jobs: int
    pending: int
    pruned: int  #: left out: their events are gone
    cells: int | None  #: of the rollups; None where they were not compared
    differences: list[_Row]


_DIFFERENCES = (
    text("project", lambda row: row.project_id),
    identifier("job", lambda row: or_dash(row.job)),
    text("what", lambda row: row.what),
    prose("stored", lambda row: row.stored),
    prose("recomputed", lambda row: row.recomputed),
)


def _verify_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--fleet", action="store_true", help="also compare every cell of the rollups"
    )


def _verify(args: Namespace) -> _Comparison:
    """Compare what is stored with what the events say.

    A server may run meanwhile. Jobs that it has yet to fold are counted, not compared.
    """
    with opened_for_reading(args) as (settings, store):
        jobs = list(counted(verify(store, settings.limits), "jobs verified"))
        days = list(counted(verify_rollups(store), "days verified")) if args.fleet else None
        with store.reading() as conn:
            left_out = pruned(conn)
    return _Comparison(
        jobs=len(jobs),
        pending=sum(job.pending for job in jobs),
        pruned=left_out,
        cells=None if days is None else sum(day.cells for day in days),
        differences=[
            *(_Row.of_job(difference) for job in jobs for difference in job.differences),
            *(_Row.of_rollups(difference) for day in days or () for difference in day.differences),
        ],
    )


def _write_comparison(comparison: _Comparison, _args: Namespace) -> None:
    if comparison.differences:
        write_table(_DIFFERENCES, comparison.differences)
    else:
        cells = comparison.cells
        rollups = "" if cells is None else f" and {cells} cells of the rollups"
        write_line(f"{comparison.jobs} jobs{rollups}, no difference.")
    if comparison.pending:
        sys.stderr.write(
            f"{comparison.pending} jobs were not compared: the worker has yet to fold them.\n"
        )
    _write_pruned(comparison.pruned, "compared")


def _write_pruned(jobs: int, verb: str) -> None:
    if jobs:
        sys.stderr.write(f"{jobs} jobs were not {verb}: their events were pruned.\n")


def _gate(comparison: _Comparison, _args: Namespace) -> Exit:
    return Exit.GATE if comparison.differences else Exit.DONE


VERIFY = Verb(
    options=(_verify_options, config), run=_verify, write=_write_comparison, exit_code=_gate
)


def _recompute_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--processes",
        type=whole,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes (default: one per core)",
    )
    parser.add_argument(
        "--from-start", action="store_true", help="do not continue an interrupted run"
    )


def _recompute(args: Namespace) -> Any:
    """Recompute, on SQLite while no server runs, on PostgreSQL beside any number of them."""
    settings = loaded(args).settings
    with bar("jobs recomputed") as reach:

        def report(position: RecomputePosition, jobs: int) -> None:
            reach(position.jobs, jobs)

        done = recompute(
            settings.database_url,
            now_us,
            report,
            settings.limits,
            processes=args.processes,
            from_start=args.from_start,
        )
    jobs, events = (done.jobs, done.events) if done else (0, 0)
    with opened_for_reading(args) as (_, store), store.reading() as conn:
        return {"jobs": jobs, "events": events, "pruned": pruned(conn)}


def _write_recomputed(answer: Any, _args: Namespace) -> None:
    write_line(f"{answer['jobs']} jobs recomputed from {answer['events']} events.")
    _write_pruned(answer["pruned"], "recomputed")


RECOMPUTE = Verb(options=(_recompute_options, config), run=_recompute, write=_write_recomputed)
