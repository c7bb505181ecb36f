"""What a job adds to sums at one instant rather than over time, and durations to be counted."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ett_service.core.fleet.measures import QUEUES
from ett_service.core.fleet.owned_time import is_weighted, last_at
from ett_service.core.fleet.totals import FAILURE, JOB_ETT, PHASE, place, ratio_place
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.ledger.results import AttemptLedger, JobLedger, RunLedger
from ett_service.core.words import (
    BEFORE_THE_LOOP,
    FAILURES,
    INFRA_ORIGINS,
    TIMED,
    Category,
    Outcome,
)

_SPEEDS = ("effective_at_reference", "slowed", "speed_unmeasured")
_DATA_WAITS = ("data_wait", "data_wait_loop")
_CHECKPOINT_STOP = Category.CHECKPOINT_BLOCKING.value


class InstantAmounts(NamedTuple):
    """What is added to sums at one instant rather than over time, and a duration to be counted."""

    at: int
    number: int | None  #: the attempt in whose cohort it belongs; None for the job's own
    sums: tuple[tuple[str, int], ...] = ()
    weighted: tuple[tuple[str, int], ...] = ()  #: to be added times accelerators
    tally: tuple[str, int, int] | None = None  #: name, place and microseconds


def instant_amounts(ledger: JobLedger, since: int = -NEVER) -> Iterator[InstantAmounts]:
    """Yield everything that happened at an instant, in no order.

    What happened before *since* may be left out.
    """
    yield from amounts_without_stops(ledger, since)
    yield from checkpoint_stops(ledger, since)


def amounts_without_stops(ledger: JobLedger, since: int = -NEVER) -> Iterator[InstantAmounts]:
    """Yield what :func:`instant_amounts` does, but for checkpoint stops."""
    yield from _of_the_job(ledger)
    for attempt in ledger.attempts:
        if attempt.ended_at >= since:
            yield from _of_the_attempt(attempt)
    yield from _recovered(ledger, since)


def changed_amounts(before: JobLedger, after: JobLedger) -> set[InstantAmounts]:
    """Return the amounts that only one of both ledgers has, checkpoint stops aside.

    Those are segments.
    """
    amounts = set(_of_the_job(before)) ^ set(_of_the_job(after))
    amounts |= set(_recovered(before)) ^ set(_recovered(after))
    for old, new in zip_longest(before.attempts, after.attempts):
        # The fold makes an attempt anew only where something has changed.
        if old is not new:
            amounts |= set(_of_the_attempt(old)) ^ set(_of_the_attempt(new))
    return amounts


def _of_the_job(ledger: JobLedger) -> Iterator[InstantAmounts]:
    for run in ledger.runs:
        yield from _of_the_run(run, ledger)
    if ledger.started_at is not None:
        yield InstantAmounts(ledger.started_at, None, (("jobs_started", 1),))
        latest = ledger.attempts[-1].number
        yield InstantAmounts(last_at(ledger), latest, _ended(ledger), tally=_ett(ledger))


def _of_the_run(run: RunLedger, ledger: JobLedger) -> Iterator[InstantAmounts]:
    if run.idle_before_us:
        yield InstantAmounts(run.sign_at, None, (("between_runs_us", run.idle_before_us),))
    by_owner = tuple((QUEUES[owner], us) for owner, us in run.queue_owners_us.items())
    waited = (("queue_wait_us", run.queue_wait_us), *by_owner)
    if run.started_at is None:
        at = ledger.as_of if run is ledger.runs[-1] else run.sign_at
        yield InstantAmounts(at, None, waited)
        return
    tally = _timed("queue_wait", run.queue_wait_us)
    yield InstantAmounts(run.started_at, None, waited, tally=tally)
    if run.time_to_start_us is not None:
        own = ledger.attempts[run.first_attempt : run.first_attempt + run.attempts]
        loops = (attempt for attempt in own if attempt.loop_started_at is not None)
        first = min(loops, key=_loop_started_at)
        tally = _timed("time_to_start", run.time_to_start_us)
        yield InstantAmounts(_loop_started_at(first), first.number, tally=tally)


def _of_the_attempt(attempt: AttemptLedger | None) -> Iterator[InstantAmounts]:
    if attempt is None:
        return
    yield InstantAmounts(attempt.started_at, attempt.number, (("attempts", 1),))
    if attempt.outcome in FAILURES:
        yield _failure(attempt)
    if any(attempt.speed):
        yield _measured(attempt, _SPEEDS, attempt.speed)
    if attempt.data_wait is not None:
        yield _measured(attempt, _DATA_WAITS, attempt.data_wait, ("data_wait_attempts", 1))
    yield from _phases(attempt)


def _recovered(ledger: JobLedger, since: int = -NEVER) -> Iterator[InstantAmounts]:
    for recovery in ledger.recoveries:
        is_over = recovery.resumed is not None and recovery.end_at >= since
        if is_over and recovery.outcome in FAILURES:
            tally = _timed("time_to_recover", recovery.us)
            yield InstantAmounts(recovery.end_at, recovery.resumed, tally=tally)


def checkpoint_stops(ledger: JobLedger, since: int = -NEVER) -> Iterator[InstantAmounts]:
    """Yield each stop for a checkpoint that is over, in order, unless it was before *since*."""
    segments = ledger.segments
    first = max(0, bisect_left(segments, (since,)) - 1)
    for start, end, category, _, number in segments[first:]:
        if category is not Category.CHECKPOINT_BLOCKING or number is None:
            continue
        attempt = ledger.attempts[number]
        is_open = attempt.outcome is Outcome.RUNNING and end == attempt.ended_at
        if end >= since and not is_open:
            yield InstantAmounts(end, number, tally=_timed(_CHECKPOINT_STOP, end - start))


def _loop_started_at(attempt: AttemptLedger) -> int:
    assert attempt.loop_started_at is not None
    return attempt.loop_started_at


def _ended(ledger: JobLedger) -> tuple[tuple[str, int], ...]:
    return (("jobs_ended", 1), ("jobs_ended_unweighted", int(not is_weighted(ledger))))


def _ett(ledger: JobLedger) -> tuple[str, int, int]:
    effective = (share for share in ledger.shares if share.category is Category.EFFECTIVE_TRAINING)
    return (JOB_ETT, ratio_place(sum(share.us for share in effective), ledger.e2e_us), 0)


def _failure(attempt: AttemptLedger) -> InstantAmounts:
    sums = (
        ("failures", 1),
        ("infra_failures", int(attempt.origin in INFRA_ORIGINS)),
        ("preemptions", int(attempt.outcome is Outcome.PREEMPTED)),
        ("unsaved_us", attempt.unsaved_us),
    )
    tally = (f"{FAILURE}{attempt.origin}/{attempt.cause}", 0, attempt.unsaved_us)
    weighted = (("unsaved_weighted_us", attempt.unsaved_us),)
    return InstantAmounts(attempt.ended_at, attempt.number, sums, weighted, tally)


def _measured(
    attempt: AttemptLedger, names: Sequence[str], us: Sequence[int], *counts: tuple[str, int]
) -> InstantAmounts:
    """Return durations of the attempt, also times accelerators, and counts of it, at its end."""
    sums = [(f"{name}_us", each) for name, each in zip(names, us, strict=True)]
    weighted = [(f"{name}_weighted_us", each) for name, each in zip(names, us, strict=True)]
    return InstantAmounts(attempt.ended_at, attempt.number, (*sums, *counts), tuple(weighted))


def _phases(attempt: AttemptLedger) -> Iterator[InstantAmounts]:
    """Yield what the attempt spent on each phase, once it has left it."""
    over_at = None if attempt.outcome is Outcome.RUNNING else attempt.ended_at
    looped_at = over_at if attempt.loop_started_at is None else attempt.loop_started_at
    for category, us in attempt.categories_us.items():
        at = looped_at if category in BEFORE_THE_LOOP else over_at
        if category in TIMED and at is not None:
            yield InstantAmounts(at, attempt.number, tally=_timed(f"{PHASE}{category}", us))


def _timed(name: str, us: int) -> tuple[str, int, int]:
    return (name, place(us), us)
