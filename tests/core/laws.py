"""The four laws, as checks of any fold that claims to obey them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

from ett_service.core.events import Event
from ett_service.core.ledger.attempts.lifetimes import Limits
from ett_service.core.ledger.owned_waits import PARTS
from ett_service.core.ledger.results import JobLedger, RunLedger, Segment
from ett_service.core.words import Category, JobState, Period, WaitPart
from tests.builders.drawn.timelines import Timeline, in_batches

Fold = Callable[[Iterable[Event], Mapping[str, int], int, Limits], JobLedger]


def of(fold: Fold, timeline: Timeline) -> JobLedger:
    """The ledger that a fold makes of a timeline."""
    return fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)


def check_conservation(ledger: JobLedger) -> None:
    """Law 1: no overlap, no hole in a run, and the lengths sum to its E2E in integers."""
    segments = ledger.segments
    assert all(segment.start_at < segment.end_at for segment in segments)
    assert all(before.end_at <= after.start_at for before, after in pairwise(segments))
    for run in ledger.runs:
        own = _segments_of(run, ledger)
        assert all(before.end_at == after.start_at for before, after in pairwise(own))
        assert all(before[2:] != after[2:] for before, after in pairwise(own)), "not maximal"
        if own:
            assert (own[0].start_at, own[-1].end_at) == (run.started_at, run.ended_at)
        assert sum(segment.us for segment in own) == run.e2e_us
    assert sum(segment.us for segment in segments) == ledger.e2e_us
    _check_shares(ledger)
    _check_attempts(ledger)
    _check_runs(ledger)


def _segments_of(run: RunLedger, ledger: JobLedger) -> list[Segment]:
    if run.started_at is None or run.ended_at is None:
        return []
    return [
        segment
        for segment in ledger.segments
        if run.started_at <= segment.start_at and segment.end_at <= run.ended_at
    ]


def _check_runs(ledger: JobLedger) -> None:
    begun = [run for run in ledger.runs if run.started_at is not None]
    edges = [(before.ended_at, after.started_at) for before, after in pairwise(begun)]
    assert all(a is not None and b is not None and a <= b for a, b in edges), "runs overlap"
    assert ledger.e2e_us == sum(run.e2e_us for run in ledger.runs)
    for name in ("failures", "infra_failures", "unsaved_us", "queue_wait_us"):
        assert getattr(ledger, name) == sum(getattr(run, name) for run in ledger.runs)
    numbers = [n for run in ledger.runs for n in range(len(ledger.attempts)) if run.contains(n)]
    assert numbers == [attempt.number for attempt in ledger.attempts]
    assert all(run.state is JobState.FINISHED for run in ledger.runs[:-1])
    assert ledger.state is ledger.runs[-1].state


def _check_shares(ledger: JobLedger) -> None:
    by_segment: Counter[tuple[Category, Period]] = Counter()
    for segment in ledger.segments:
        by_segment[segment.category, segment.period] += segment.end_at - segment.start_at
    shared: Counter[tuple[Category, Period]] = Counter()
    for share in ledger.shares:
        shared[share.category, share.period] += share.us
        if share.weighted_us is not None and share.gpu_us is not None:
            assert 0 <= share.gpu_us <= share.weighted_us
    assert shared == by_segment


def _check_attempts(ledger: JobLedger) -> None:
    for attempt in ledger.attempts:
        owned: Counter[Category] = Counter()
        for segment in ledger.segments:
            if segment.number == attempt.number:
                owned[segment.category] += segment.end_at - segment.start_at
        assert attempt.categories_us == owned


def check_speed(ledger: JobLedger) -> None:
    """Effective training is at the reference, slowed or not measured, in integers."""
    for attempt in ledger.attempts:
        effective = attempt.categories_us.get(Category.EFFECTIVE_TRAINING, 0)
        assert sum(attempt.speed) == effective
        assert min(attempt.speed) >= 0
        measured = attempt.speed.at_reference_us + attempt.speed.slowed_us
        assert measured <= sum(day.us for day in attempt.step_times) <= effective
    for run in ledger.runs:
        assert sum(run.speed) == run.effective_us
        own = [attempt.speed for attempt in ledger.attempts if run.contains(attempt.number)]
        assert run.speed == tuple(map(sum, zip((0, 0, 0), *own, strict=True)))
    assert sum(ledger.speed) == sum(run.effective_us for run in ledger.runs)


def check_waits(ledger: JobLedger) -> None:
    """Owners partition the queue, each period of waits and each recovery, in integers."""
    waits = ledger.owned_waits
    assert all(wait.start_at < wait.end_at for wait in waits)
    assert all(before.end_at <= after.start_at for before, after in pairwise(waits))
    periods, parts = _by("period", ledger.segments), _by("part", waits)
    for period, part in PARTS.items():
        assert parts[part] == periods[period]
    queues = [sum(run.queue_owners_us.values()) for run in ledger.runs]
    assert queues == [run.queue_wait_us for run in ledger.runs]
    assert _by("part", ledger.wait_shares) == parts + Counter({WaitPart.QUEUE: sum(queues)})
    if all(run.time_to_start_us is not None for run in ledger.runs):
        assert parts[WaitPart.STARTING] == (ledger.time_to_start_us or 0)
    for recovery in ledger.recoveries:
        assert sum(recovery.owners_us.values()) == recovery.us


def _by(member: str, items: Iterable[Any]) -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for item in items:
        sums[getattr(item, member)] += item.us
    return sums


def check_order(fold: Fold, timeline: Timeline, chance: Random) -> None:
    """Law 2: order of arrival and duplication change nothing."""
    again = [*timeline.events, *timeline.events[: len(timeline.events) // 2]]
    chance.shuffle(again)
    shuffled = fold(again, timeline.offsets, timeline.as_of, timeline.limits)
    assert shuffled == of(fold, timeline)


def check_late_facts(
    forward: Callable[[Sequence[Sequence[Event]], Timeline], JobLedger],
    fold: Fold,
    timeline: Timeline,
    chance: Random,
) -> None:
    """Law 3: batches that come late give what they would have given on time."""
    late_last = sorted(
        timeline.events, key=lambda event: event.at + chance.choice([0, 0, 0, 10**9])
    )
    assert forward(in_batches(late_last, chance), timeline) == of(fold, timeline)


def check_two_views(ledger: JobLedger) -> None:
    """Law 4: both partitions sum to E2E, and effective time lies in ``training`` only."""
    periods: Counter[Period] = Counter()
    for share in ledger.shares:
        periods[share.period] += share.us
    effective = sum(s.us for s in ledger.shares if s.category is Category.EFFECTIVE_TRAINING)
    assert all(
        share.period is Period.TRAINING
        for share in ledger.shares
        if share.category is Category.EFFECTIVE_TRAINING
    )
    e2e = ledger.e2e_us
    assert periods.total() == e2e
    starts = [_starting(run, ledger) for run in ledger.runs if _has_loop(run, ledger)]
    assert ledger.time_to_start_us == (sum(starts) if starts else None)
    assert sum(recovery.us for recovery in ledger.recoveries) == periods[Period.RECOVERING]
    for recovery in ledger.recoveries:
        assert sum(recovery.parts_us.values()) == recovery.us
    if e2e:
        lost = periods.total() - periods[Period.TRAINING]
        lost += periods[Period.TRAINING] - effective
        assert Fraction(effective, e2e) == 1 - Fraction(lost, e2e)


def _has_loop(run: RunLedger, ledger: JobLedger) -> bool:
    return any(
        attempt.loop_started_at is not None and run.contains(attempt.number)
        for attempt in ledger.attempts
    )


def _starting(run: RunLedger, ledger: JobLedger) -> int:
    own = [s.us for s in _segments_of(run, ledger) if s.period is Period.STARTING]
    assert run.time_to_start_us == sum(own)
    return sum(own)
