"""``ett migrate | verify | recompute | backup | prune``: the database that the settings name."""

import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from ett_service.aggregation.recompute import recompute
from ett_service.aggregation.verify import Difference, RollupDifference, verify, verify_rollups
from ett_service.charts.units import count, size
from ett_service.cli import confirmation
from ett_service.cli.arguments import config, whole
from ett_service.cli.operations.config import loaded, opened_for_reading, record
from ett_service.cli.output import or_dash, write_line
from ett_service.cli.progress import bar, counted
from ett_service.cli.tables import identifier, prose, text, write_table
from ett_service.cli.verb import Exit, Failure, Verb, now_us
from ett_service.core.intervals import DAY_US
from ett_service.logs import redact
from ett_service.storage import retention
from ett_service.storage.engine import sqlite
from ett_service.storage.engine.backup import back_up, renew_epoch
from ett_service.storage.engine.migrate import address, migrate
from ett_service.storage.engine.seal import key_file
from ett_service.storage.engine.store import open_for_reading, open_store
from ett_service.storage.jobs.batches import RecomputePosition, pruned
from ett_service.storage.record.audit import Action, AdminAct
from ett_service.worker.retention import Pruned, Pruner


def _migrate_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--citus", action="store_true", help="spread the rows of jobs over the nodes of Citus"
    )


def _migrate(args: Namespace) -> Any:
    url = loaded(args).settings.database_url
    migrate(url, citus=args.citus)
    return {"database": redact(url), "schema": "newest"}


def _write_migrated(answer: Any, _args: Namespace) -> None:
    write_line(f"{answer['database']} has the latest schema.")


MIGRATE = Verb(options=(_migrate_options, config), run=_migrate, write=_write_migrated)


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


class NoBackup(Failure):
    """The command does not say what to do, or cannot do it for this database."""


def _backup_options(parser: ArgumentParser) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("path", nargs="?", type=Path, metavar="PATH", help="file to copy to")
    target.add_argument(
        "--restored", action="store_true",
        help="the database was restored from elsewhere: have trainers send again what it lacks",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def _backup(args: Namespace) -> Any:
    url = loaded(args).settings.database_url
    if args.restored:
        with closing(open_store(url)) as store:
            store.write(_restored)
        return {"database": redact(url), "epoch": "new"}
    database_url = address(url)
    if database_url.get_backend_name() != "sqlite":
        hint = "Use pg_dump, or a base backup and the write-ahead log: see docs/operations.md."
        raise NoBackup("PostgreSQL has its own backups.", hint)
    database = sqlite.path_of(database_url)
    n_bytes = back_up(database, args.path, replace=args.force)
    if key_file(database).exists():
        sys.stderr.write(
            f"{key_file(database).name} is not in the copy: without it, or `secret_key`, "
            "receivers have to be added again.\n"
        )
    return {"path": str(args.path), "bytes": n_bytes}


def _restored(conn: Connection) -> None:
    renew_epoch(conn)
    record(conn, AdminAct(Action.STORE_RESTORED))


def _write_backup(answer: Any, args: Namespace) -> None:
    if args.restored:
        write_line(f"{answer['database']} counts as restored: trainers send again what it lacks.")
    else:
        write_line(f"{answer['path']}: {size(answer['bytes'])}.")


BACKUP = Verb(
    description="Copy the SQLite database while it is used.",
    epilog="A copy is restored by putting it in the database's place while no server runs.",
    options=(_backup_options, config),
    run=_backup,
    write=_write_backup,
)


class NoRetention(Failure):
    """Neither the settings nor the command line say how long the record is kept."""

    hint = "Set `retention_days`, or name a number of days with --days."


def _prune_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be deleted, and how much it is"
    )
    parser.add_argument(
        "--days", type=whole, metavar="N",
        help="prune jobs closed for N days (default: the setting retention_days)",
    )  # fmt: skip


def _prune(args: Namespace) -> Any:
    settings = loaded(args).settings
    days = args.days or settings.retention_days
    if not days:
        raise NoRetention("The record of jobs is kept for ever: `retention_days` is 0.")
    with closing(open_for_reading(settings.database_url)) as store, store.reading() as conn:
        prunable = retention.prunable(conn, now_us() - days * DAY_US)
        if args.dry_run:
            freed = retention.freed_bytes(conn, retention.table_sizes(conn), prunable)
            return {"days": days, **asdict(prunable), "bytes": freed}
    jobs = prunable.jobs
    confirmation.require(
        args,
        f"{count(jobs)} jobs closed for {days} days will lose their events and segments for good; "
        "their results stay",
    )
    with closing(open_store(settings.database_url)) as store:
        act = AdminAct(Action.RECORD_PRUNED, details={"days": days, "jobs": jobs})
        store.write(partial(record, act=act))
        pruner, total = Pruner(store, now_us, days * DAY_US), Pruned()
        with bar("jobs pruned") as reach:
            while step := pruner.step():
                total.jobs += step.jobs
                total.rows += step.rows
                reach(min(total.jobs, jobs), jobs)
    return {"days": days, "jobs": total.jobs, "rows": total.rows}


def _write_pruning(answer: Any, args: Namespace) -> None:
    of = f"closed for {answer['days']} days"
    if args.dry_run:
        write_line(
            f"{count(answer['jobs'])} jobs {of} would be pruned: {count(answer['events'])} events, "
            f"about {size(answer['bytes'])} with their segments."
        )
    else:
        write_line(f"{count(answer['jobs'])} jobs {of} pruned, {count(answer['rows'])} rows.")


PRUNE = Verb(
    description="Delete events and segments of jobs that are closed; their results stay.",
    options=(_prune_options, confirmation.yes, config),
    run=_prune,
    write=_write_pruning,
)
