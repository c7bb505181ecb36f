"""``ett migrate | verify | recompute | backup | prune``: the database that the settings name."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
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
from ett_service.core.intervals import rfc3339
from ett_service.logs import redact
from ett_service.storage import retention, sizes
from ett_service.storage.engine import sqlite
from ett_service.storage.engine.backup import back_up, renew_epoch
from ett_service.storage.engine.migrate import address, migrate
from ett_service.storage.engine.seal import key_file
from ett_service.storage.engine.store import open_for_reading, open_store
from ett_service.storage.fleet import hours
from ett_service.storage.jobs.batches import RecomputePosition, pruned
from ett_service.storage.record.audit import Action, AdminAct
from ett_service.storage.schema.record import EVERY_HOUR
from ett_service.worker.retention import Pruned, Pruner

_DAY_LENGTH = len("2026-11-09")


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
    hourly_from: str | None  #: of pruned rollups, when the first hour begins that was compared
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
            left_out, horizon_us = pruned(conn), hours.kept_from(conn)
    is_cut = args.fleet and horizon_us != EVERY_HOUR
    return _Comparison(
        jobs=len(jobs),
        pending=sum(job.pending for job in jobs),
        pruned=left_out,
        cells=None if days is None else sum(day.cells for day in days),
        hourly_from=rfc3339(horizon_us) if is_cut else None,
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
    if comparison.hourly_from is not None:
        since = comparison.hourly_from[:_DAY_LENGTH]
        sys.stderr.write(f"Hours before {since} were not compared: they were pruned.\n")


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
    """Neither the settings nor the command line say how long something is kept."""

    hint = "Set one of them, or name a number of days with --days or --hourly-days."


class TooFewDays(Failure):
    """Hours would go that the service reads."""


def _prune_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be deleted, and how much it is"
    )
    parser.add_argument(
        "--days", type=whole, metavar="N",
        help="prune jobs closed for N days (default: the setting retention_days)",
    )  # fmt: skip
    parser.add_argument(
        "--hourly-days", type=whole, metavar="N",
        help="prune the fleet's sums by hour, of days that were over N days ago; those by day stay "
        "(default: the setting rollups.hourly_days)",
    )  # fmt: skip


def _prune(args: Namespace) -> Any:
    settings = loaded(args).settings
    days = args.days or settings.retention_days
    hourly_days = args.hourly_days or settings.rollups.hourly_days
    if not (days or hourly_days):
        raise NoRetention(
            "Everything is kept for ever: `retention_days` and `rollups.hourly_days` are 0."
        )
    if 0 < hourly_days < (fewest := settings.fewest_hourly_days):
        raise TooFewDays(
            f"--hourly-days may be {fewest} or more.",
            "The search for regressions, /metrics and pages read hours that are younger.",
        )
    kept, at_us = retention.Kept.for_days(days, hourly_days), now_us()
    with closing(open_for_reading(settings.database_url)) as store, store.reading() as conn:
        answer: dict[str, Any] = {"days": days or None, "hourly_days": hourly_days or None}
        answer["hourly_before"] = (
            rfc3339(at_us - kept.hourly_us)[:_DAY_LENGTH] if kept.hourly_us else None
        )
        if args.dry_run:
            return answer | _prunable(conn, kept, at_us)
        jobs = _prunable_jobs(conn, kept, at_us).jobs
    confirmation.require(args, " and ".join(_losses(answer, jobs)))
    with closing(open_store(settings.database_url)) as store:
        details = {"days": days, "jobs": jobs, "hourly_days": hourly_days}
        store.write(partial(record, act=AdminAct(Action.RECORD_PRUNED, details=details)))
        pruner, total = Pruner(store, now_us, kept), Pruned()
        with bar("jobs pruned") as reach:
            while step := pruner.step():
                total.add(step)
                reach(min(total.jobs, jobs), jobs)
    return answer | asdict(total)


def _prunable_jobs(conn: Connection, kept: retention.Kept, at_us: int) -> retention.Prunable:
    if kept.record_us is None:
        return retention.Prunable(0, 0)
    return retention.prunable(conn, at_us - kept.record_us)


def _prunable(conn: Connection, kept: retention.Kept, at_us: int) -> dict[str, int | None]:
    """Say what would be deleted, and how many bytes that frees."""
    tables, jobs = sizes.table_sizes(conn), _prunable_jobs(conn, kept, at_us)
    return {
        **asdict(jobs),
        "bytes": sizes.freed_bytes(conn, tables, jobs),
        "hourly_bytes": sizes.freed_hourly_bytes(conn, tables, kept, at_us),
    }


def _losses(answer: Mapping[str, Any], jobs: int) -> Iterator[str]:
    if answer["days"]:
        yield (
            f"{count(jobs)} jobs closed for {answer['days']} days will lose their events and "
            "segments for good; their results stay"
        )
    if answer["hourly_days"]:
        yield (
            f"the fleet will lose its sums by hour before {answer['hourly_before']} for good; "
            "those by day stay"
        )


def _write_pruning(answer: Any, args: Namespace) -> None:
    if answer["days"]:
        jobs = f"{count(answer['jobs'])} jobs closed for {answer['days']} days"
        write_line(
            f"{jobs} would be pruned: {count(answer['events'])} events, "
            f"{_about(answer['bytes'])} with their segments."
            if args.dry_run
            else f"{jobs} pruned, {count(answer['rows'])} rows."
        )
    if answer["hourly_days"]:
        hours = f"Sums by hour before {answer['hourly_before']}"
        write_line(
            f"{hours} would be pruned, {_about(answer['hourly_bytes'])}; those by day stay."
            if args.dry_run
            else f"{hours} pruned, {count(answer['hourly_rows'])} rows; those by day stay."
        )


def _about(n_bytes: int | None) -> str:
    return "of unknown size" if n_bytes is None else f"about {size(n_bytes)}"


PRUNE = Verb(
    description="Delete events and segments of closed jobs, whose results stay, and sums by hour.",
    options=(_prune_options, confirmation.yes, config),
    run=_prune,
    write=_write_pruning,
)
