"""The laws of the ledger, on drawn timelines: 100 of each as tests, 10,000 as laws."""

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.events import Event
from ett_service.core.ledger.fold import JobFold, fold
from ett_service.core.ledger.results import JobLedger
from tests.builders.drawn.paces import paced
from tests.builders.drawn.timelines import (
    SECOND,
    Timeline,
    in_batches,
    lifelike_timelines,
    restarted_ranks,
    rough_heaps,
    rough_timelines,
    timelines,
    tiny_heaps,
    tiny_timelines,
)
from tests.builders.plain_ledgers import plain, plain_runs
from tests.core.laws import (
    check_conservation,
    check_late_facts,
    check_order,
    check_speed,
    check_two_views,
    check_waits,
    of,
)
from tests.core.oracle import answers, every_change, every_microsecond

_LOOKED_AT = 0.2  #: of the ledgers on the way, to save time
_chances = st.integers(0, 2**32).map(Random)
_paced = st.builds(paced, st.one_of(tiny_heaps, rough_heaps, lifelike_timelines), _chances)


def folded_forward(batches: Sequence[Sequence[Event]], timeline: Timeline) -> JobLedger:
    """Add batch after batch and read a ledger after each; the clocks come with the last."""
    job_fold = JobFold(timeline.limits)
    seen: list[Event] = []
    ledger = job_fold.ledger(timeline.as_of)
    for left, batch in zip(range(len(batches))[::-1], batches, strict=True):
        offsets = {} if left else timeline.offsets
        seen += batch
        if not job_fold.add(batch, offsets):
            job_fold = JobFold(timeline.limits)
            job_fold.add(seen, offsets)
            job_fold.ledger(timeline.as_of)
        ledger = job_fold.ledger(timeline.as_of)
    assert job_fold.event_count == len(timeline.events)
    return ledger


@given(timelines)
def test_segments_neither_overlap_nor_leave_holes_and_sum_to_e2e(timeline: Timeline) -> None:
    check_conservation(of(fold, timeline))


@given(timelines, _chances)
def test_order_of_arrival_and_duplication_change_nothing(
    timeline: Timeline, chance: Random
) -> None:
    check_order(fold, timeline, chance)


@given(timelines, _chances)
def test_any_split_of_any_permutation_into_batches_changes_nothing(
    timeline: Timeline, chance: Random
) -> None:
    events = chance.sample(timeline.events, len(timeline.events))

    assert folded_forward(in_batches(events, chance), timeline) == of(fold, timeline)


@given(timelines, _chances)
def test_a_late_event_gives_what_it_would_have_given_on_time(
    timeline: Timeline, chance: Random
) -> None:
    check_late_facts(folded_forward, fold, timeline, chance)


@given(timelines)
def test_both_views_sum_to_e2e_and_effective_time_lies_in_training(timeline: Timeline) -> None:
    check_two_views(of(fold, timeline))


@given(timelines)
def test_owners_partition_the_waits_to_the_microsecond(timeline: Timeline) -> None:
    check_waits(of(fold, timeline))


@given(_paced)
def test_effective_training_is_at_the_reference_slowed_or_not_measured(timeline: Timeline) -> None:
    check_speed(of(fold, timeline))


@given(st.one_of(tiny_heaps, rough_heaps, lifelike_timelines, restarted_ranks, _paced), _chances)
def test_folding_forward_event_by_event_equals_folding_again(
    timeline: Timeline, chance: Random
) -> None:
    job_fold, before = JobFold(timeline.limits), None
    seen: list[Event] = []
    for event in sorted(timeline.events, key=lambda event: event.at):
        seen.append(event)
        if not job_fold.add([event], timeline.offsets):
            job_fold, before = JobFold(timeline.limits), None
            job_fold.add(seen, timeline.offsets)
        as_of = event.at + chance.choice([0, 0, 5, 1200 * SECOND])
        ledger = job_fold.ledger(as_of)
        check_unchanged_before(job_fold.changed_from, before, ledger)
        if chance.random() < _LOOKED_AT:
            assert ledger == fold(seen, timeline.offsets, as_of, timeline.limits)
        before = ledger


def check_unchanged_before(
    instant: int | None, before: JobLedger | None, ledger: JobLedger
) -> None:
    """Segments that begin before the instant of the first change are as they were."""
    if before is not None and instant is not None:
        assert _begun_before(instant, ledger) == _begun_before(instant, before)


def _begun_before(instant: int, ledger: JobLedger) -> list[tuple[object, ...]]:
    return [segment for segment in ledger.segments if segment.start_at < instant]


@given(st.one_of(tiny_timelines, tiny_heaps))
def test_the_fold_paints_each_microsecond_as_the_oracle_does(timeline: Timeline) -> None:
    expected = answers(
        timeline.events, timeline.offsets, timeline.as_of, timeline.limits, every_microsecond
    )

    ledger = of(fold, timeline)
    assert (plain(ledger), plain_runs(ledger)) == expected


@given(st.one_of(rough_timelines, rough_heaps, lifelike_timelines, restarted_ranks, _paced))
def test_the_fold_paints_hours_as_the_oracle_does(timeline: Timeline) -> None:
    expected = answers(
        timeline.events, timeline.offsets, timeline.as_of, timeline.limits, every_change
    )

    ledger = of(fold, timeline)
    assert (plain(ledger), plain_runs(ledger)) == expected
