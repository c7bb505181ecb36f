"""The results of each run of a job."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ett_service.core.intervals import merged
from ett_service.core.ledger.job_segments import RunSegments
from ett_service.core.ledger.attempts.lifetimes import queued_spans
from ett_service.core.ledger.owned_waits import by_owner
from ett_service.core.ledger.results import (
    AttemptLedger,
    RunLedger,
    SpeedReference,
    summed_speed,
)
from ett_service.core.owners import OwnedWait
from ett_service.core.words import FAILURES, INFRA_ORIGINS, Category

References = tuple[SpeedReference, ...]
"""Of one run."""


def run_ledgers(
    runs: Sequence[RunSegments],
    attempts: Sequence[AttemptLedger],
    references: Sequence[References],
    queues: Sequence[Sequence[OwnedWait]],
    last_sign_at: int,
) -> tuple[RunLedger, ...]:
    """Return the results of each run; *attempts* are those of all, the rest is by run."""
    idle_us = [
        max(0, after.lifetimes.run.sign_at - _over_at(before)) for before, after in pairwise(runs)
    ]
    return tuple(
        _run_ledger(
            number,
            idle,
            run,
            [attempts[life.number] for life in run.lifetimes.lives],
            own_references,
            last_sign_at,
            queue=queue,
        )
        for number, (idle, run, own_references, queue) in enumerate(
            zip([0, *idle_us], runs, references, queues, strict=True)
        )
    )


def _run_ledger(
    number: int,
    idle_us: int,
    run: RunSegments,
    own: Sequence[AttemptLedger],
    references: References,
    last_sign_at: int,
    *,
    queue: Iterable[OwnedWait],
) -> RunLedger:
    lifetimes, events, first_loop = run.lifetimes, run.lifetimes.run, run.first_loop
    failed = [attempt for attempt in own if attempt.outcome in FAILURES]
    return RunLedger(
        number=number,
        launches=tuple(dict.fromkeys(attempt.key[0] for attempt in events.attempts)),
        first_attempt=events.first_number,
        attempts=len(own),
        state=lifetimes.state,
        outcome=lifetimes.standing.event.outcome if lifetimes.standing else None,
        sign_at=events.sign_at,
        started_at=lifetimes.first,
        ended_at=None if lifetimes.first is None else run.ends,
        idle_before_us=idle_us,
        queue_wait_us=queue_wait_us(run, last_sign_at),
        effective_us=sum(
            attempt.categories_us.get(Category.EFFECTIVE_TRAINING, 0) for attempt in own
        ),
        time_to_start_us=None if first_loop is None else first_loop - run.allocated_at,
        failures=len(failed),
        infra_failures=sum(attempt.origin in INFRA_ORIGINS for attempt in failed),
        unsaved_us=sum(attempt.unsaved_us for attempt in failed),
        speed=summed_speed(attempt.speed for attempt in own),
        speed_references=references,
        queue_owners_us=by_owner(queue),
    )


def _over_at(run: RunSegments) -> int:
    """Return where a run ends that another follows: one that only queued with its job."""
    if run.lifetimes.lives:
        return run.ends
    return max(at for at, _ in run.lifetimes.run.job_ends)


def queue_wait_us(run: RunSegments, last_sign_at: int) -> int:
    """Return the union of all queued time before the run's first instant, in microseconds."""
    first = run.first
    spans = queued_spans(run.lifetimes, last_sign_at)
    queued = merged((start, end) for _, start, end in spans)
    return sum(min(end, first) - start for start, end in queued if start < first)
