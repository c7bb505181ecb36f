"""``ett recompute``: folds every job anew and rewrites its numbers, and the fleet's with them."""

import argparse
import os

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ett_service.aggregation.recompute import recompute
from ett_service.cli.arguments import add_json
from ett_service.cli.configured import add_config, loaded
from ett_service.cli.exits import Exit
from ett_service.cli.now import now_us
from ett_service.cli.output import write_json, write_line
from ett_service.storage.jobs.batches import RecomputePosition


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("recompute", help="fold every job anew and rewrite its numbers")
    parser.add_argument(
        "--processes",
        type=_positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="how many fold at a time (default: one a core)",
    )
    parser.add_argument(
        "--from-start",
        action="store_true",
        help="do not go on where a run was cut off",
    )
    add_config(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Recompute, on SQLite while no server runs, on PostgreSQL beside any number of them."""
    settings = loaded(args).settings
    columns = (
        TextColumn("jobs recomputed"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None)

        def report(place: RecomputePosition, jobs: int) -> None:
            progress.update(bar, completed=place.jobs, total=max(jobs, place.jobs))

        done = recompute(
            settings.database_url,
            now_us,
            report,
            settings.limits,
            processes=args.processes,
            from_start=args.from_start,
        )
    jobs, events = (done.jobs, done.events) if done else (0, 0)
    if args.json:
        write_json({"jobs": jobs, "events": events})
    else:
        write_line(f"{jobs} jobs recomputed from {events} events.")
    return Exit.DONE


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("1 or more")
    return number
