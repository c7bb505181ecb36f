"""``ett jobs``: which jobs there are, with their headline numbers, and what is done to them."""

import argparse
from collections.abc import Mapping
from typing import Any

from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit
from ett_service.cli.output import clock, minute, percent, write_json, write_line, write_table
from ett_service.cli.record.corrections import add_acts, run_act
from ett_service.cli.remote import ask

_PAGE = 1000
_FILTERS = {
    **{name: f"only of this {name}" for name in ("team", "model", "cluster", "hardware", "kind")},
    "state": "only in this state: queued, running, interrupted or finished",
    "from": "only alive at or after this instant (RFC 3339)",
    "to": "only begun before this instant (RFC 3339)",
    "q": "only with this text in their key or name",
    "project": "of another project than the key's own",
}
_COLUMNS = ("job", "state", "ETT%", "E2E", "time to start", "failures", "gpus", "began (UTC)")
_NUMBERS = ("ETT%", "E2E", "time to start", "failures", "gpus")


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser("jobs", help="list jobs")
    for name, summary in _FILTERS.items():
        parser.add_argument(f"--{name}", help=summary)
    parser.add_argument("--sort", default="-started_at", help="member, `-` in front: largest first")
    parser.add_argument("--limit", type=_count, default=50, metavar="N", help="default 50")
    add_server(parser)
    add_json(parser)
    add_acts(parser)


def run(args: argparse.Namespace) -> int:
    """Print the jobs, newest first unless asked otherwise, or do what was asked for."""
    if args.act:
        return run_act(args)
    jobs = _jobs(args)
    if args.json:
        write_json(jobs)
    elif not jobs:
        write_line("No job yet. `ett run --job NAME -- COMMAND` makes one.")
    else:
        write_table(_COLUMNS, map(_row, jobs), right=_NUMBERS)
    return Exit.DONE


def _jobs(args: argparse.Namespace) -> list[dict[str, Any]]:
    query = {name: getattr(args, name) for name in (*_FILTERS, "sort")}
    jobs: list[dict[str, Any]] = []
    cursor = None
    while len(jobs) < args.limit:
        limit = min(_PAGE, args.limit - len(jobs))
        page = ask(args, "/v1/jobs", {**query, "limit": limit, "cursor": cursor})
        jobs += page["jobs"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    return jobs


def _row(job: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        job["job"],
        job["state"],
        percent(job["ett_ratio"]),
        clock(job["e2e_seconds"]),
        clock(job["time_to_start_seconds"]),
        job["failures"],
        job["gpus"],
        minute(job["started_at"]),
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("a whole number from 1 is needed")
    return int(text)
