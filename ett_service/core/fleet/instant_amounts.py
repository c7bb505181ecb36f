"""Instant amounts: what a job adds to the fleet at one instant rather than over time."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from ett_service.core.fleet.cohort import is_weighted, last_at
from ett_service.core.fleet.distribution import place, ratio_place
from ett_service.core.fleet.totals import FAILURE, JOB_ETT, PHASE
from ett_service.core.ledger.results import AttemptLedger, JobLedger
from ett_service.core.ledger.spans import NEVER
from ett_service.core.words import FAILURES, INFRA_ORIGINS, START_CATEGORIES, Category, Outcome

_TIMED = frozenset({*START_CATEGORIES, Category.SHUTDOWN})
_STOP = Category.CHECKPOINT_BLOCKING.value


class InstantAmounts(NamedTuple):
    """Amounts to be added to sums, and one duration to be counted, at an instant."""

    at: int
    number: int | None  #: the attempt in whose cohort it belongs; None for the job's own
    sums: tuple[tuple[str, int], ...] = ()
    unsaved_us: int = 0  #: to be added plain and weighted
    tally: tuple[str, int, int] | None = None  #: name, place and microseconds


def instant_amounts(ledger: JobLedger, since: int = -NEVER) -> Iterator[InstantAmounts]:
    """Yield everything that happened at an instant, in no order.

    What happened before *since* may be left out.
    """
    yield from _of_the_job(ledger)
    for attempt in ledger.attempts:
        if attempt.ended_at >= since:
            yield from _of_the_attempt(attempt)
    yield from _recovered(ledger, since)
    yield from _checkpoint_stops(ledger, since)


def changed_amounts(before: JobLedger, after: JobLedger) -> set[InstantAmounts]:
    """Return the amounts of which only one of both ledgers tells, but for checkpoint stops.

    Those are segments.
    """
    found = set(_of_the_job(before)) ^ set(_of_the_job(after))
    found |= set(_recovered(before)) ^ set(_recovered(after))
    for old, new in zip_longest(before.attempts, after.attempts):
        # The fold makes an attempt anew only where something has changed.
        if old is not new:
            found |= set(_of_the_attempt(old)) ^ set(_of_the_attempt(new))
    return found


def _of_the_job(ledger: JobLedger) -> Iterator[InstantAmounts]:
    began = ledger.started_at
    waited = (("queue_wait_us", ledger.queue_wait_us),)
    if began is None:
        yield InstantAmounts(ledger.as_of, None, waited)
        return
    yield InstantAmounts(began, None, waited, tally=_timed("queue_wait", ledger.queue_wait_us))
    yield InstantAmounts(began, None, (("jobs_started", 1),))
    latest = ledger.attempts[-1].number
    yield InstantAmounts(last_at(ledger), latest, _ended(ledger), tally=_ett(ledger))
    if ledger.time_to_start_us is not None:
        loops = (one for one in ledger.attempts if one.loop_started_at is not None)
        first = min(loops, key=_loop_started_at)
        tally = _timed("time_to_start", ledger.time_to_start_us)
        yield InstantAmounts(_loop_started_at(first), first.number, tally=tally)


def _of_the_attempt(attempt: AttemptLedger | None) -> Iterator[InstantAmounts]:
    if attempt is None:
        return
    yield InstantAmounts(attempt.started_at, attempt.number, (("attempts", 1),))
    if attempt.outcome in FAILURES:
        yield _failure(attempt)
    yield from _phases(attempt)


def _recovered(ledger: JobLedger, since: int = -NEVER) -> Iterator[InstantAmounts]:
    for recovery in ledger.recoveries:
        is_over = recovery.resumed is not None and recovery.end_at >= since
        if is_over and recovery.outcome in FAILURES:
            tally = _timed("time_to_recover", recovery.us)
            yield InstantAmounts(recovery.end_at, recovery.resumed, tally=tally)


def _checkpoint_stops(ledger: JobLedger, since: int) -> Iterator[InstantAmounts]:
    """Yield each stop for a checkpoint that is over, in order."""
    segments = ledger.segments
    first = max(0, bisect_left(segments, (since,)) - 1)
    for start, end, category, _, number in segments[first:]:
        if category is not Category.CHECKPOINT_BLOCKING or number is None:
            continue
        attempt = ledger.attempts[number]
        is_open = attempt.outcome is Outcome.RUNNING and end == attempt.ended_at
        if end >= since and not is_open:
            yield InstantAmounts(end, number, (), 0, _timed(_STOP, end - start))


def _loop_started_at(attempt: AttemptLedger) -> int:
    assert attempt.loop_started_at is not None
    return attempt.loop_started_at


def _ended(ledger: JobLedger) -> tuple[tuple[str, int], ...]:
    return (("jobs_ended", 1), ("jobs_ended_unweighted", int(not is_weighted(ledger))))


def _ett(ledger: JobLedger) -> tuple[str, int, int]:
    effective = (one for one in ledger.shares if one.category is Category.EFFECTIVE_TRAINING)
    return (JOB_ETT, ratio_place(sum(one.us for one in effective), ledger.e2e_us), 0)


def _failure(attempt: AttemptLedger) -> InstantAmounts:
    sums = (
        ("failures", 1),
        ("infra_failures", int(attempt.origin in INFRA_ORIGINS)),
        ("preemptions", int(attempt.outcome is Outcome.PREEMPTED)),
        ("unsaved_us", attempt.unsaved_us),
    )
    tally = (f"{FAILURE}{attempt.origin}/{attempt.cause}", 0, attempt.unsaved_us)
    return InstantAmounts(attempt.ended_at, attempt.number, sums, attempt.unsaved_us, tally)


def _phases(attempt: AttemptLedger) -> Iterator[InstantAmounts]:
    """Yield what the attempt spent on each phase, once it has left it."""
    over_at = None if attempt.outcome is Outcome.RUNNING else attempt.ended_at
    looped_at = over_at if attempt.loop_started_at is None else attempt.loop_started_at
    for category, us in attempt.categories_us.items():
        at = looped_at if category in START_CATEGORIES else over_at
        if category in _TIMED and at is not None:
            yield InstantAmounts(at, attempt.number, tally=_timed(f"{PHASE}{category}", us))


def _timed(name: str, us: int) -> tuple[str, int, int]:
    return (name, place(us), us)
