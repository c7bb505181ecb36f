"""``ett jobs``: lists jobs, and corrects and deletes them."""

from argparse import ArgumentParser, Namespace
from typing import Any

from ett_service.cli.arguments import INSTANT, server, when, whole
from ett_service.cli.output import clock, minute, percent
from ett_service.cli.record.corrections import ACTS
from ett_service.cli.remote import listed
from ett_service.cli.tables import (
    identifier,
    number,
    outcome,
    spare,
    styled,
    text,
    write_rows,
)
from ett_service.cli.verb import Verb
from ett_service.core.dimensions import JOB_DIMENSIONS

_FILTERS = {
    **{name: f"only of this {name}" for name in JOB_DIMENSIONS},
    "state": "only in this state: queued, running, interrupted or finished",
    "q": "only with this text in the key or name",
    "project": "project, for a key that may use several",
}

_JOBS = (
    identifier("job"),
    styled(text("state"), outcome),
    number("ETT%", "ett_ratio", percent),
    number("E2E", "e2e_seconds", clock),
    number("failures"),
    spare(text("began (UTC)", "started_at", minute)),
    spare(number("time to start", "time_to_start_seconds", clock)),
    spare(number("gpus")),
    spare(number("slowed", "slowed_seconds", clock)),
)


_NONE = "No jobs. `ett run --job NAME -- COMMAND` records one."
_NONE_MATCH = "No job meets these conditions. `ett jobs` without them lists all."


def _list_options(parser: ArgumentParser) -> None:
    for name, summary in _FILTERS.items():
        parser.add_argument(f"--{name}", help=summary)
    when(parser, "--from", "from", f"only alive at or after: {INSTANT}")
    when(parser, "--to", "to", "only begun before")
    parser.add_argument(
        "--sort", default="-started_at", help="member to sort by; `-` in front: largest first"
    )
    parser.add_argument("--limit", type=whole, default=50, metavar="N", help="default 50")


def _jobs(args: Namespace) -> list[Any]:
    query = {name: getattr(args, name) for name in (*_FILTERS, "from", "to", "sort")}
    return listed(args, "/v1/jobs", "jobs", query, args.limit)


def _write_jobs(jobs: list[Any], args: Namespace) -> None:
    is_filtered = any(getattr(args, name) for name in (*_FILTERS, "from", "to"))
    write_rows(_JOBS, jobs, _NONE_MATCH if is_filtered else _NONE)


VERB = Verb(
    options=(_list_options, server),
    run=_jobs,
    write=_write_jobs,
    acts=ACTS,
    acts_title="instead of listing",
)
