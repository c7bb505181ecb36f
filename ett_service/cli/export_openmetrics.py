"""``ett export openmetrics``: the past of the fleet's counters, for Prometheus."""

import argparse
import re
import sys
from contextlib import closing
from pathlib import Path

from ett_service.aggregation.fold_job import fold_all
from ett_service.cli.configured import add_config, loaded
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.now import now_us
from ett_service.cli.output import counted, whole_file
from ett_service.cli.quantities import seconds
from ett_service.cli.window import instant
from ett_service.core.fleet.counter_history import Steps, counter_steps
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.core.ledger.spans import NEVER
from ett_service.core.words import label
from ett_service.ingest.refusals import Fault
from ett_service.ingest.text import parse_instant
from ett_service.metrics.backfill import Past, Scope
from ett_service.metrics.families import COUNTERS
from ett_service.settings import Settings
from ett_service.storage.engine.store import open_for_reading
from ett_service.storage.metrics import labels as counter_labels
from ett_service.storage.metrics.labels import Most

WHAT = "openmetrics"

_MOST_STEPS = 100_000
_SHORTEST_S = 60
_LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)=(.+)", re.ASCII | re.DOTALL)
_TAKEN = frozenset({"le", "quantile", *(name for family in COUNTERS for name in family.labels)})


def add_parser(whats: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare what is exported."""
    parser = whats.add_parser(
        WHAT,
        help="the past of the fleet's counters, for Prometheus",
        description="Writes the counters of /metrics as they would have been read in the past. "
        "It reads the database that the settings name and asks no server; one may run meanwhile.",
        epilog="Example: `ett export openmetrics --label job=ett -o past.om`, then `promtool tsdb "
        "create-blocks-from --max-block-duration=2000h openmetrics past.om DIR`. "
        "docs/howto/backfill-prometheus.md tells more.",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="jobs that move the live counters, too, not only those sent as history: right for "
        "the time before the first scrape",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        type=_at_us,
        metavar="WHEN",
        help="first sample (default: the first)",
    )
    parser.add_argument(
        "--to", dest="end", type=_at_us, metavar="WHEN", help="last sample (default: now)"
    )
    parser.add_argument(
        "--step", type=_step_us, default="1h", help="between samples, as 15m or 1h (default 1h)"
    )
    parser.add_argument(
        "--label",
        dest="labels",
        action="append",
        type=_label,
        default=[],
        metavar="NAME=VALUE",
        help="on every sample, as job=ett; may be given several times",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard out")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Write the past; a FILE is there when it is whole, and not before."""
    settings = loaded(args).settings
    now = now_us()
    last_at = min(now if args.end is None else args.end, now)
    steps = Steps(args.step, last_at - last_at % SECOND_US)
    past = _read(settings, now, steps, only_history=not args.all)
    scope = Scope(
        steps,
        -NEVER if args.begin is None else args.begin,
        dict(args.labels),
        settings.metrics.cohort_histograms,
    )
    _refuse_nothing(past, scope, only_history=not args.all)
    pieces = (piece.encode() for piece in past.text(scope))
    if args.output is None:
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()
    else:
        with whole_file(args.output) as file:
            file.writelines(pieces)
    return Exit.DONE


def _read(settings: Settings, now: int, steps: Steps, *, only_history: bool) -> Past:
    past = Past()
    with closing(open_for_reading(settings.database_url)) as store:
        jobs = fold_all(store, now, settings.limits, only_history=only_history)
        for job in counted(jobs, "jobs read"):
            labels = label(job.ledger.facts.cluster), label(job.ledger.facts.model)
            past.add(labels, counter_steps(job.ledger, steps, job.exclusions))
        with store.reading() as conn:
            live = counter_labels.read(conn)
    past.fold(Most(settings.metrics.clusters, settings.metrics.cohorts), live)
    return past


def _refuse_nothing(past: Past, scope: Scope, *, only_history: bool) -> None:
    first_at = past.first_at
    if first_at is None:
        hint = "Jobs that were not sent as history come with --all." if only_history else ""
        raise Failure("there is nothing to write", hint)
    begins = max(first_at, scope.from_at)
    if (scope.steps.last_at - begins) // scope.steps.step_us > _MOST_STEPS:
        raise Failure(
            f"the first job lies at {rfc3339(begins)}, more than {_MOST_STEPS:,} steps ago",
            "Name a later --from, or a longer --step.",
        )


def _at_us(text: str) -> int:
    try:
        return parse_instant(instant(text).replace(" ", "T"))
    except Fault:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an instant, as 2026-03-01T00:00:00Z or 60d"
        ) from None


def _step_us(text: str) -> int:
    length = seconds(text)
    if length < _SHORTEST_S or length % _SHORTEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes, as 15m or 1h")
    return int(length) * SECOND_US


def _label(text: str) -> tuple[str, str]:
    found = _LABEL.fullmatch(text)
    if found is None or found[1].startswith("__"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a label, as job=ett")
    if found[1] in _TAKEN:
        raise argparse.ArgumentTypeError(f"the metrics have a label {found[1]!r} of their own")
    return found[1], label(found[2])
