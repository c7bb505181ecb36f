"""``ett prune``: deletes the record of jobs that are long over, or says what it would free."""

from argparse import ArgumentParser, Namespace
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Any

from ett_service.charts.units import count, size
from ett_service.cli.arguments import config, whole
from ett_service.cli.operations.local import loaded, record
from ett_service.cli.output import write_line
from ett_service.cli.progress import bar
from ett_service.cli.verb import Failure, Verb, now_us
from ett_service.core.intervals import DAY_US
from ett_service.storage import retention
from ett_service.storage.engine.store import open_for_reading, open_store
from ett_service.storage.record.audit import Action, AdminAct
from ett_service.worker.retention import Pruned, Pruner


class NoRetention(Failure):
    """Neither the settings nor the command line say how long the record is kept."""

    hint = "Set `retention_days`, or name a number of days with --days."


def _options(parser: ArgumentParser) -> None:
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
    if args.dry_run:
        with closing(open_for_reading(settings.database_url)) as store, store.reading() as conn:
            prunable = retention.prunable(conn, now_us() - days * DAY_US)
            freed = retention.freed_bytes(conn, retention.table_sizes(conn), prunable)
        return {"days": days, **asdict(prunable), "bytes": freed}
    with closing(open_store(settings.database_url)) as store:
        with store.reading() as conn:
            jobs = retention.prunable(conn, now_us() - days * DAY_US).jobs
        act = AdminAct(Action.RECORD_PRUNED, details={"days": days, "jobs": jobs})
        store.write(partial(record, act=act))
        pruner, total = Pruner(store, now_us, days * DAY_US), Pruned()
        with bar("jobs pruned") as reach:
            while step := pruner.step():
                total.jobs += step.jobs
                total.rows += step.rows
                reach(min(total.jobs, jobs), jobs)
    return {"days": days, "jobs": total.jobs, "rows": total.rows}


def _write(answer: Any, args: Namespace) -> None:
    of = f"closed for {answer['days']} days"
    if args.dry_run:
        write_line(
            f"{count(answer['jobs'])} jobs {of} would be pruned: {count(answer['events'])} events, "
            f"about {size(answer['bytes'])} with their segments."
        )
    else:
        write_line(f"{count(answer['jobs'])} jobs {of} pruned, {count(answer['rows'])} rows.")


VERB = Verb(
    description="Delete events and segments of jobs that are closed; their results stay.",
    options=(_options, config),
    run=_prune,
    write=_write,
)
