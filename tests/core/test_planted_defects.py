"""Each law's check turns red on a fold that breaks the law."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import Phase as Step
from hypothesis import find, settings

from ett_service.core.events import Event
from ett_service.core.ledger.attempts.lifetimes import Limits
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from tests.builders.drawn.timelines import Timeline, timelines
from tests.builders.plain_ledgers import plain
from tests.core.laws import (
    Fold,
    check_conservation,
    check_late_facts,
    check_order,
    check_two_views,
    of,
)
from tests.core.oracle import answer

_FIRST_100 = settings(
    max_examples=100, phases=[Step.generate], derandomize=True, database=None, deadline=None
)


def float_sums(
    events: Iterable[Event], offsets: Mapping[str, int], as_of: int, limits: Limits
) -> JobLedger:
    """Add up seconds, and turn the sum into microseconds."""
    ledger = fold(events, offsets, as_of, limits)
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for segment in ledger.segments:
        length = segment.end_at / 1e6 - segment.start_at / 1e6
        seconds[segment.category, segment.period] += length
    shares = tuple(
        share._replace(us=int(seconds[share.category, share.period] * 1e6))
        for share in ledger.shares
    )
    return replace(ledger, shares=shares)


def double_counted_overlap(
    events: Iterable[Event], offsets: Mapping[str, int], as_of: int, limits: Limits
) -> JobLedger:
    """Fold each attempt alone, and put the parts side by side."""
    together = list(events)
    ledger = fold(together, offsets, as_of, limits)
    keys = {(event.launch, event.attempt, event.cycle) for event in together}
    alone = [
        fold([e for e in together if (e.launch, e.attempt, e.cycle) == key], offsets, as_of, limits)
        for key in keys
    ]
    segments = sorted(segment for part in alone for segment in part.segments)
    return replace(ledger, segments=tuple(segments))


def arrival_order(
    events: Iterable[Event], offsets: Mapping[str, int], as_of: int, limits: Limits
) -> JobLedger:
    """Assume that nothing happened before the event that arrived last."""
    heard: list[Event] = []
    for event in {event.id: event for event in events}.values():
        latest = max((earlier.at for earlier in heard), default=event.at)
        heard.append(replace(event, at=max(event.at, latest)))
    return fold(heard, offsets, as_of, limits)


def open_recovery_left_out(
    events: Iterable[Event], offsets: Mapping[str, int], as_of: int, limits: Limits
) -> JobLedger:
    """Count a recovery only when it is over."""
    ledger = fold(events, offsets, as_of, limits)
    over = tuple(recovery for recovery in ledger.recoveries if recovery.resumed is not None)
    return replace(ledger, recoveries=over)


def late_batch_ignored(batches: Sequence[Sequence[Event]], timeline: Timeline) -> JobLedger:
    """Take no event that happened before a batch that is already in."""
    taken: list[Event] = []
    for batch in batches:
        newest = max((event.at for event in taken), default=None)
        taken += [event for event in batch if newest is None or event.at >= newest]
    return fold(taken, timeline.offsets, timeline.as_of, timeline.limits)


def conserves(defective: Fold, timeline: Timeline) -> None:
    check_conservation(of(defective, timeline))


def keeps_order(defective: Fold, timeline: Timeline) -> None:
    check_order(defective, timeline, Random(0))


def has_two_views(defective: Fold, timeline: Timeline) -> None:
    check_two_views(of(defective, timeline))


def paints_as_the_oracle(defective: Fold, timeline: Timeline) -> None:
    expected = answer(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)
    assert plain(of(defective, timeline)) == expected


@pytest.mark.parametrize(
    ("law", "defective"),
    [
        (conserves, float_sums),
        (conserves, double_counted_overlap),
        (keeps_order, arrival_order),
        (has_two_views, float_sums),
        (has_two_views, open_recovery_left_out),
        (paints_as_the_oracle, double_counted_overlap),
        (paints_as_the_oracle, arrival_order),
        (paints_as_the_oracle, open_recovery_left_out),
    ],
)
def test_a_law_turns_red_on_a_planted_defect(
    law: Callable[[Fold, Timeline], None], defective: Fold
) -> None:
    caught = find(timelines, lambda drawn: breaks(law, defective, drawn), settings=_FIRST_100)

    law(fold, caught)


def breaks(law: Callable[[Fold, Timeline], None], defective: Fold, timeline: Timeline) -> bool:
    """Whether the law's own check raises."""
    try:
        law(defective, timeline)
    except AssertionError:
        return True
    return False


def test_the_law_of_late_facts_turns_red_where_late_batches_are_ignored() -> None:
    def is_caught(timeline: Timeline) -> bool:
        try:
            check_late_facts(late_batch_ignored, fold, timeline, Random(timeline.as_of))
        except AssertionError:
            return True
        return False

    find(timelines, is_caught, settings=_FIRST_100)
