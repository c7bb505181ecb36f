"""Owned time: whose each second of a job is, in which cohort it lies and what it weighs."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from ett_service.core.dimensions import STATED_DIMENSIONS, Cohort
from ett_service.core.events import Exclusion
from ett_service.core.intervals import HOUR_US, Interval, merged
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.ledger.job_results import UNHELD, cut_waits
from ett_service.core.ledger.results import AttemptLedger, JobLedger
from ett_service.core.words import Category, Owner, Period

MOST_ACCELERATORS = 1_000_000
"""More than these in one attempt are as good as unknown."""

MOST_WEIGHTED_US = 2**59
"""So are those of a job of more than 160 million accelerator hours: sums have 63 bits."""

MOST_HOURS = 20_000
"""A job that lives in more hours than this, over two years, is left out of the fleet."""


def size_of(accelerators: int | None) -> str:
    """Return the bucket of a number of accelerators: ``1``, ``2-3``, ``4-7`` and so on."""
    if not accelerators or accelerators > MOST_ACCELERATORS:
        return ""
    low = 1 << accelerators.bit_length() - 1
    return "1" if low == 1 else f"{low}-{2 * low - 1}"


def last_at(ledger: JobLedger) -> int:
    """Return the last microsecond of the job's time; as-of while it has none."""
    if ledger.started_at is None or ledger.ended_at is None:
        return ledger.as_of
    return max(ledger.started_at, ledger.ended_at - 1)


def is_weighted(ledger: JobLedger) -> bool:
    """Whether the accelerators of every attempt are known, and can be."""
    counts = [attempt.gpus for attempt in ledger.attempts if attempt.gpus is not None]
    most = max(counts, default=0)
    return (
        len(counts) == len(ledger.attempts)
        and most <= MOST_ACCELERATORS
        and most * ledger.e2e_us <= MOST_WEIGHTED_US
    )


def fits(ledger: JobLedger) -> bool:
    """Whether the job lives in no more hours than ``MOST_HOURS``."""
    last = last_at(ledger)
    began = last if ledger.started_at is None else ledger.started_at
    return (last - began) // HOUR_US < MOST_HOURS


class Frame:
    """Which cohort and weight each part of a job has."""

    def __init__(self, ledger: JobLedger, exclusions: Sequence[Exclusion] = ()) -> None:
        self.known = is_weighted(ledger)
        self.weights = [attempt.gpus or 0 if self.known else 0 for attempt in ledger.attempts]
        self.fits = fits(ledger)
        facts = ledger.facts
        stated: dict[str, Any] = {name: getattr(facts, name) or "" for name in STATED_DIMENSIONS}
        plain = Cohort()._replace(**stated, size=size_of(facts.gpus))
        settings = [(attempt.gpus, attempt.code_version) for attempt in ledger.attempts]
        of_setting = {
            (gpus, version): plain._replace(size=size_of(gpus), code_version=version or "")
            for gpus, version in set(settings)
        }
        self.cohorts = [of_setting[setting] for setting in settings]
        self.home = self.cohorts[0] if self.cohorts else plain
        self._wholly = any(exclusion == (None, None) for exclusion in exclusions)
        self._windows = [
            (-NEVER if exclusion.from_at is None else exclusion.from_at, exclusion.to_at)
            for exclusion in exclusions
        ]
        self._edges = {edge for window in self._windows for edge in window if edge is not None}

    def excluded(self, at: int) -> bool:
        """Whether the instant was taken out of the fleet's numbers."""
        if not self._windows:
            return False
        return any(start <= at and (end is None or at < end) for start, end in self._windows)

    def cohort(self, number: int | None, at: int) -> Cohort:
        """Return the cohort of what an attempt, or the job, did at an instant."""
        plain = self.home if number is None else self.cohorts[number]
        if not self._windows:
            return plain
        out = self._wholly if number is None else self.excluded(at)
        return plain._replace(excluded=out)

    def of_attempt(self, number: int, *, excluded: bool) -> Cohort:
        """Return the cohort of an attempt's time, which was taken out of the numbers or not."""
        plain = self.cohorts[number]
        return plain._replace(excluded=True) if excluded else plain

    def cuts(self, start: int, end: int) -> Sequence[tuple[int, int]]:
        """Cut ``[start, end)`` at full hours and where an exclusion begins or ends."""
        if not self._edges and start < end <= start - start % HOUR_US + HOUR_US:
            return ((start, end),)
        return tuple(self._cut(start, end))

    def _cut(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        while start < end:
            stop = min(end, start - start % HOUR_US + HOUR_US)
            stop = min([edge for edge in self._edges if start < edge < stop], default=stop)
            yield start, stop
            start = stop


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


def waits_by_hour(
    ledger: JobLedger, frame: Frame, since: int = -NEVER
) -> Mapping[tuple[int, int, bool, Owner], int]:
    """Sum what was waited from *since* on by hour, attempt, whether excluded, and owner.

    In microseconds; the queue, which is no part of E2E, is left out.
    """
    sums: defaultdict[tuple[int, int, bool, Owner], int] = defaultdict(int)
    first = max(0, bisect_left(ledger.owned_waits, (since,)) - 1)
    for start, end, _, number, owner in ledger.owned_waits[first:]:
        assert number is not None  # the queue is not among them
        for at, until in frame.cuts(max(start, since), end):
            sums[at - at % HOUR_US, number, frame.excluded(at), owner] += until - at
    return sums


def time_in_window(
    ledger: JobLedger, window: Interval, exclusions: Sequence[Exclusion] = ()
) -> Iterator[tuple[Cohort, OwnedTime]]:
    """Yield the job's time inside the *window* with its cohort, in no order.

    One that lives for too long has no time, as in the fleet's sums.
    """
    frame = Frame(ledger, exclusions)
    if not frame.fits:
        return
    if not exclusions:
        yield from _uncut(ledger, frame, window)
        return
    edges = sorted(
        {edge for exclusion in exclusions for edge in exclusion if edge is not None} | {*window}
    )
    for owned in owned_time(ledger, frame):
        begin, end = max(owned.start_at, window[0]), min(owned.end_at, window[1])
        if begin >= end:
            continue
        inside = edges[bisect_right(edges, begin) : bisect_left(edges, end)]
        for start, stop in pairwise((begin, *inside, end)):
            cohort = frame.cohort(owned.counts_for, start)
            yield cohort, OwnedTime(start, stop, *owned[2:])


def _uncut(ledger: JobLedger, frame: Frame, window: Interval) -> Iterator[tuple[Cohort, OwnedTime]]:
    first, last = window
    for owned in owned_time(ledger, frame):
        if owned.start_at < last and owned.end_at > first:
            cohort = frame.cohorts[owned.counts_for]
            if owned.start_at < first or owned.end_at > last:
                begin, end = max(owned.start_at, first), min(owned.end_at, last)
                yield cohort, OwnedTime(begin, end, *owned[2:])
            else:
                yield cohort, owned


def with_waits(ledger: JobLedger) -> JobLedger:
    """Return a stored *ledger*, with its segments, as the fold gave it: its waits are not kept.

    Whether the next cycle queued is not known: between two cycles of one allocation all
    accelerators count as held.
    """
    between = [segment for segment in ledger.segments if segment.number is None]
    if not between:
        return ledger
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
