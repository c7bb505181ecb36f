"""``ett export openmetrics``: the history of the fleet's counters, for Prometheus."""

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace

from ett_service.aggregation.fold_job import fold_all
from ett_service.cli.arguments import config, instant_us, output, seconds
from ett_service.cli.operations.config import opened_for_reading
from ett_service.cli.output import whole_file
from ett_service.cli.progress import counted
from ett_service.cli.verb import Failure, Verb, now_us
from ett_service.core.fleet.counter_history import Steps, counter_steps
from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.metrics.backfill import Past, Scope
from ett_service.metrics.families import COUNTERS
from ett_service.settings import Settings
from ett_service.storage.engine.store import Readable
from ett_service.storage.jobs.batches import pruned
from ett_service.storage.metrics import labels as counter_labels
from ett_service.storage.metrics.counters import label
from ett_service.storage.metrics.labels import LabelLimits

_MOST_STEPS = 100_000
_SHORTEST_S = 60
_LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)=(.+)", re.ASCII | re.DOTALL)
_OWN_LABELS = frozenset(
    {"le", "quantile", *(name for family in COUNTERS for name in family.labels)}
)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--all",
        action="store_true",
        help="export jobs that move the live counters, too, and not only those sent as history: "
        "right for the time before the first scrape",
    )
    for flag, dest, summary in (
        ("--from", "begin", "first sample (default: the first)"),
        ("--to", "end", "last sample (default: now)"),
    ):
        parser.add_argument(flag, dest=dest, type=instant_us, metavar="WHEN", help=summary)
    parser.add_argument(
        "--step",
        type=_step_us,
        default="1h",
        help="time between samples, such as 15m or 1h (default 1h)",
    )
    parser.add_argument(
        "--label",
        dest="labels",
        action="append",
        type=_label,
        default=[],
        metavar="NAME=VALUE",
        help="label on every sample, such as job=ett; may be repeated",
    )
    output(parser)


def _export(args: Namespace) -> None:
    """Write the samples; a FILE appears when it is complete, and not before."""
    only_history = not args.all
    now = now_us()
    last_at = min(now if args.end is None else args.end, now)
    steps = Steps(args.step, last_at - last_at % SECOND_US)
    with opened_for_reading(args) as (settings, store):
        past = _read(settings, store, now, steps, only_history=only_history)
    scope = Scope(
        steps,
        -NEVER if args.begin is None else args.begin,
        dict(args.labels),
        settings.metrics.cohort_histograms,
    )
    _refuse_nothing(past, scope, only_history=only_history)
    pieces = (piece.encode() for piece in past.text(scope))
    if args.output is None:
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()
    else:
        with whole_file(args.output) as file:
            file.writelines(pieces)


def _read(
    settings: Settings, store: Readable, now: int, steps: Steps, *, only_history: bool
) -> Past:
    past = Past()
    jobs = fold_all(store, now, settings.limits, only_history=only_history)
    for job in counted(jobs, "jobs read"):
        labels = label(job.ledger.facts.cluster), label(job.ledger.facts.model)
        past.add(labels, counter_steps(job.ledger, steps, job.exclusions))
    with store.reading() as conn:
        live = counter_labels.read(conn)
        left_out = pruned(conn)
    if left_out:
        sys.stderr.write(f"{left_out} jobs were left out: their events were pruned.\n")
    past.fold(LabelLimits(settings.metrics.clusters, settings.metrics.cohorts), live)
    return past


def _refuse_nothing(past: Past, scope: Scope, *, only_history: bool) -> None:
    first_at = past.first_at
    if first_at is None:
        hint = "--all exports jobs that were not sent as history, too." if only_history else ""
        raise Failure("there is nothing to export", hint)
    begins = max(first_at, scope.from_at)
    if (scope.steps.last_at - begins) // scope.steps.step_us > _MOST_STEPS:
        raise Failure(
            f"the first job began at {rfc3339(begins)}, more than {_MOST_STEPS:,} steps ago",
            "Name a later --from, or a longer --step.",
        )


def _step_us(text: str) -> int:
    length = seconds(text)
    if length < _SHORTEST_S or length % _SHORTEST_S:
        raise ArgumentTypeError(f"{text!r} is not a number of minutes, such as 15m or 1h")
    return int(length) * SECOND_US


def _label(text: str) -> tuple[str, str]:
    parts = _LABEL.fullmatch(text)
    if parts is None or parts[1].startswith("__"):
        raise ArgumentTypeError(f"{text!r} is not a label, such as job=ett")
    if parts[1] in _OWN_LABELS:
        raise ArgumentTypeError(f"the metrics have a label {parts[1]!r} of their own")
    return parts[1], label(parts[2])


ACT = Verb(
    summary="history of the fleet's counters, for Prometheus",
    description="Write the counters of /metrics as they would have been scraped in the past. "
    "It reads the database of the settings and needs no server; one may run meanwhile.",
    epilog="Example: `ett export openmetrics --label job=ett -o past.om`, then `promtool tsdb "
    "create-blocks-from --max-block-duration=2000h openmetrics past.om DIR`. "
    "docs/howto/backfill-prometheus.md explains more.",
    options=(_options, config),
    run=_export,
)
