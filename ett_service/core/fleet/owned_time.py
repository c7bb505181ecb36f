"""Owned time: who owned each second of a job, and what it weighs.

Whoever sums or counts time takes it from here, and cuts it at edges of its own.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ett_service.core.dimensions import Cohort
from ett_service.core.fleet.cohort import Frame
from ett_service.core.intervals import Interval, merged
from ett_service.core.ledger.job_results import UNHELD, cut_waits
from ett_service.core.ledger.results import AttemptLedger, Exclusion, JobLedger
from ett_service.core.ledger.spans import NEVER
from ett_service.core.words import Category, Period


class OwnedTime(NamedTuple):
    """Time ``[start_at, end_at)`` of one owner."""

    start_at: int
    end_at: int
    category: Category
    period: Period
    number: int | None  #: of the attempt; None between attempts
    counts_for: int  #: the attempt whose cohort and accelerators it counts for
    gpus: int  #: how many those are; 0 where its time carries no weight
    held: bool  #: whether they were held


def owned_time(ledger: JobLedger, frame: Frame, since: int = -NEVER) -> Iterator[OwnedTime]:
    """Yield the job's time in no order; what ends before *since* may be left out.

    *ledger* is as the fold gave it, or :func:`with_waits` of one that was stored; *frame* is its.
    As in the fleet's sums, a job of unknown accelerators carries no weight.
    """
    weights, segments = frame.weights, ledger.segments
    first = max(0, bisect_left(segments, (since,)) - 1)
    for start, end, category, period, number in segments[first:]:
        if number is not None:
            held = category not in UNHELD
            yield OwnedTime(start, end, category, period, number, number, weights[number], held)
    for start, end, period, latest, held in ledger.waits:
        category = Category.RESTART_WAIT
        yield OwnedTime(start, end, category, period, None, latest, weights[latest], held)


def time_in_window(
    ledger: JobLedger, window: Interval, exclusions: Sequence[Exclusion] = ()
) -> Iterator[tuple[Cohort, OwnedTime]]:
    """Yield the job's time inside the *window* with its cohort, in no order.

    One that lives for too long has no time, as in the fleet's sums.
    """
    frame = Frame(ledger, exclusions)
    if not frame.fits:
        return
    edges = sorted({edge for one in exclusions for edge in one if edge is not None} | {*window})
    for owned in owned_time(ledger, frame):
        begin, end = max(owned.start_at, window[0]), min(owned.end_at, window[1])
        if begin >= end:
            continue
        inside = edges[bisect_right(edges, begin) : bisect_left(edges, end)]
        for start, stop in pairwise([begin, *inside, end]):
            cohort = frame.cohort(owned.counts_for, start)
            yield cohort, owned._replace(start_at=start, end_at=stop)


def with_waits(ledger: JobLedger) -> JobLedger:
    """Return a stored *ledger*, with its segments, as the fold gave it: its waits are not kept.

    Whether the next cycle queued is not known: between two cycles of one allocation all
    accelerators count as held.
    """
    between = [segment for segment in ledger.segments if segment.number is None]
    ended = sorted((attempt.ended_at, attempt.number) for attempt in ledger.attempts)
    held = merged(_between_cycles(ledger.attempts))
    return replace(ledger, waits=tuple(cut_waits(between, ended, held)))


def _between_cycles(attempts: Sequence[AttemptLedger]) -> Iterator[Interval]:
    latest: dict[tuple[str, int], AttemptLedger] = {}
    for attempt in attempts:
        before = latest.get((attempt.launch, attempt.attempt))
        latest[attempt.launch, attempt.attempt] = attempt
        if before is not None and before.ended_at < attempt.started_at:
            yield before.ended_at, attempt.started_at
