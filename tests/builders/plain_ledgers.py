"""A ledger as plain numbers, in the shape of the conformance suite's answers."""

from collections.abc import Iterable
from typing import Any

from ett_service.core.ledger.results import AttemptLedger, JobLedger, Recovery, RunLedger, Segment
from ett_service.core.words import Category, Period

_RUN = (
    "e2e_us",
    "queue_wait_us",
    "effective_us",
    "time_to_start_us",
    "failures",
    "infra_failures",
)
_ATTEMPT = ("number", "launch", "attempt", "cycle", "outcome", "basis")


def plain(ledger: JobLedger) -> dict[str, Any]:
    """All that the suite compares."""
    return {
        "state": ledger.state.value,
        "provisional": ledger.provisional,
        "e2e_us": ledger.e2e_us,
        "queue_wait_us": ledger.queue_wait_us,
        "categories_us": _sums(ledger.segments, "category", Category),
        "periods_us": _sums(ledger.segments, "period", Period),
        "time_to_start_us": ledger.time_to_start_us,
        "recoveries": [_recovery(recovery) for recovery in ledger.recoveries],
        "failures": ledger.failures,
        "infra_failures": ledger.infra_failures,
        "unsaved_training_us": ledger.unsaved_us,
        "attempts": [_attempt(attempt) for attempt in ledger.attempts],
        "gpu_us": _by_category(ledger, "gpu_us"),
        "weighted_us": _by_category(ledger, "weighted_us"),
        "gpus_unknown": ledger.quality.gpus_unknown,
        "segments": [list(segment) for segment in ledger.segments],
    }


def plain_runs(ledger: JobLedger) -> dict[str, Any]:
    """The runs, and the time between them."""
    return {
        "between_runs_us": ledger.between_runs_us,
        "runs": [_run(run, ledger) for run in ledger.runs],
    }


def _run(run: RunLedger, ledger: JobLedger) -> dict[str, Any]:
    first = run.first_attempt
    return {
        **{name: getattr(run, name) for name in _RUN},
        "launches": set(run.launches),
        "attempts": list(range(first, first + run.attempts)),
        "state": run.state.value,
        "started_us": run.started_at,
        "ended_us": run.ended_at,
        "sign_us": run.sign_at if run.launches else None,
        "unsaved_training_us": run.unsaved_us,
        "references": {
            (reference.gpus, reference.tokens_a_step): (reference.step_ns, reference.windows)
            for reference in run.speed_references
        },
        "reported": [
            (attempt.data_wait, attempt.telemetry_us, dict(attempt.hooks))
            for attempt in ledger.attempts
            if run.contains(attempt.number)
        ],
        "speeds": [
            tuple(attempt.speed) for attempt in ledger.attempts if run.contains(attempt.number)
        ],
    }


def _sums(segments: Iterable[Segment], name: str, words: Iterable[str]) -> dict[str, int]:
    sums = {str(word): 0 for word in words}
    for segment in segments:
        sums[getattr(segment, name)] += segment.end_at - segment.start_at
    return sums


def _recovery(recovery: Recovery) -> dict[str, Any]:
    return {
        "interrupted": recovery.interrupted,
        "resumed": recovery.resumed,
        "us": recovery.us,
        "parts_us": dict(recovery.parts_us),
        "stalled_us": recovery.stalled_us,
        "repeated_us": recovery.repeated_us,
    }


def _attempt(attempt: AttemptLedger) -> dict[str, Any]:
    return {
        **{name: getattr(attempt, name) for name in _ATTEMPT},
        "started_us": attempt.started_at,
        "ended_us": attempt.ended_at,
        "categories_us": dict(attempt.categories_us),
    }


def _by_category(ledger: JobLedger, name: str) -> dict[str, int] | None:
    if ledger.quality.gpus_unknown:
        return None
    sums: dict[str, int] = {}
    for share in ledger.shares:
        if us := getattr(share, name):
            sums[share.category] = sums.get(share.category, 0) + us
    return sums
