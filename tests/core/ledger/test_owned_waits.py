"""Waits cut by their owner: what decides, what it is cut by, and what it adds up to."""

from dataclasses import replace

from hypothesis import given, settings

from ett_service.core.events import Event, PhaseStarted
from ett_service.core.ledger.fold import JobFold, fold
from ett_service.core.ledger.owned_waits import PARTS, PHASE_OF, owner_of
from ett_service.core.ledger.results import JobLedger, WaitShare
from ett_service.core.ledger.stages import RankSpan, rank_spans
from ett_service.core.words import Outcome, Owner, Phase, WaitPart
from tests.builders.drawn.timelines import Timeline, lifelike_timelines, tiny_timelines
from tests.core.laws import check_waits
from tests.core.timeline import SECOND, ended, of_launch, queued, span, started

LATE = 10**12


def waited(*events: Event) -> dict[WaitPart, dict[Owner, int]]:
    """Seconds by part and owner."""
    ledger = fold(events, {}, LATE)
    check_waits(ledger)
    parts: dict[WaitPart, dict[Owner, int]] = {}
    for share in ledger.wait_shares:
        parts.setdefault(share.part, {})[share.owner] = share.us // SECOND
    return parts


def test_a_stage_takes_its_time_from_the_default_of_its_phase() -> None:
    parts = waited(
        span(Phase.QUEUED, 0, 100),
        span(Phase.QUEUED, 10, 70, stage="quota_wait"),
        span(Phase.SCHEDULING, 100, 110),
        span(Phase.HARDWARE_SETUP, 110, 160),
        span(Phase.HARDWARE_SETUP, 120, 150, stage="image_pull"),
        span(Phase.LAUNCHER_INIT, 160, 200),
        span(Phase.LAUNCHER_INIT, 165, 170, stage="rendezvous"),
        span(Phase.PT2_COMPILE, 200, 230),
        span(Phase.TRAIN_LOOP, 230, 300),
        ended(300, Outcome.COMPLETED),
    )

    assert parts == {
        WaitPart.QUEUE: {Owner.QUOTA: 60, Owner.SCHEDULER: 40},
        WaitPart.SCHEDULING: {Owner.SCHEDULER: 10},
        WaitPart.STARTING: {Owner.IMAGE: 30, Owner.NODE: 20, Owner.NETWORK: 5, Owner.FRAMEWORK: 65},
    }


def test_a_stage_decides_nothing_while_another_phase_owns_the_time() -> None:
    parts = waited(
        span(Phase.LAUNCHER_INIT, 0, 100),
        span(Phase.LAUNCHER_INIT, 0, 100, stage="get_first_batch_data"),
        span(Phase.PT2_COMPILE, 40, 90),
        span(Phase.TRAIN_LOOP, 100, 200),
    )

    assert parts == {WaitPart.STARTING: {Owner.USER: 50, Owner.FRAMEWORK: 50}}


def test_of_stages_inside_each_other_the_one_that_began_last_decides() -> None:
    parts = waited(
        span(Phase.HARDWARE_SETUP, 0, 100),
        span(Phase.HARDWARE_SETUP, 0, 80, stage="init_containers"),
        span(Phase.HARDWARE_SETUP, 20, 50, stage="image_pull"),
        span(Phase.TRAIN_LOOP, 100, 200),
    )

    assert parts == {WaitPart.STARTING: {Owner.USER: 50, Owner.IMAGE: 30, Owner.NODE: 20}}


def test_a_recovery_goes_to_whoever_had_to_begin_the_next_attempt() -> None:
    first = [span(Phase.TRAIN_LOOP, 0, 100), ended(110, Outcome.FAILED)]
    life = [span(Phase.LAUNCHER_INIT, 150, 180), span(Phase.TRAIN_LOOP, 180, 300)]

    cycle = waited(*first, *(replace(event, cycle=1) for event in life))
    retry = waited(*first, *(replace(event, attempt=1) for event in life))
    launch = waited(*of_launch("a", *first), *of_launch("b", *life))

    assert cycle == {WaitPart.RECOVERING: {Owner.USER: 10, Owner.FRAMEWORK: 70}}
    assert retry == {
        WaitPart.RECOVERING: {Owner.USER: 10, Owner.SCHEDULER: 40, Owner.FRAMEWORK: 30}
    }
    assert launch == {WaitPart.RECOVERING: {Owner.USER: 50, Owner.FRAMEWORK: 30}}


def test_the_queue_of_a_later_attempt_owns_its_part_of_the_recovery() -> None:
    parts = waited(
        *of_launch("a", span(Phase.TRAIN_LOOP, 0, 100), ended(100, Outcome.FAILED)),
        *of_launch(
            "b",
            span(Phase.QUEUED, 120, 200),
            span(Phase.QUEUED, 120, 170, stage="QOSGrpGRES"),
            span(Phase.TRAIN_LOOP, 200, 300),
        ),
    )

    assert parts == {WaitPart.RECOVERING: {Owner.USER: 20, Owner.QUOTA: 50, Owner.SCHEDULER: 30}}


def test_a_job_that_still_queues_waits_for_whom_it_names() -> None:
    began = PhaseStarted(id="stage", at=30 * SECOND, phase=Phase.QUEUED, stage="Dependency")

    ledger = fold([queued(0), began], {}, 100 * SECOND)

    assert ledger.owned_waits == ()  # what lies inside of the job
    assert ledger.wait_shares == (
        WaitShare(WaitPart.QUEUE, Owner.SCHEDULER, 30 * SECOND, None),
        WaitShare(WaitPart.QUEUE, Owner.USER, 70 * SECOND, None),
    )


def test_a_stage_that_comes_late_moves_what_was_waited_before() -> None:
    events = [
        started(0),
        span(Phase.HARDWARE_SETUP, 0, 100),
        span(Phase.TRAIN_LOOP, 100, 5000),
        ended(5000, Outcome.COMPLETED),
    ]
    late = span(Phase.HARDWARE_SETUP, 0, 60, stage="image_pull")
    job = JobFold()
    job.add(events, {})
    before = job.ledger(LATE)
    assert job.add([late], {})

    after = job.ledger(LATE)

    assert (before.segments, after) == (after.segments, fold([*events, late], {}, LATE))
    assert [wait.owner for wait in before.owned_waits] == [Owner.NODE]
    assert [wait.owner for wait in after.owned_waits] == [Owner.IMAGE, Owner.NODE]


@settings(max_examples=60, deadline=None)
@given(tiny_timelines | lifelike_timelines)
def test_inside_an_attempt_the_owner_is_that_of_the_innermost_stage_of_the_owning_phase(
    timeline: Timeline,
) -> None:
    ledger = fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)
    spans = rank_spans(timeline.events, timeline.offsets, ledger)
    owners = {wait.start_at: wait for wait in ledger.owned_waits}
    for at, expected in _expected(ledger, spans):
        start = max(begin for begin in owners if begin <= at)
        assert at < owners[start].end_at
        assert owners[start].owner is expected


def _expected(ledger: JobLedger, spans: list[RankSpan]) -> list[tuple[int, Owner]]:
    """Work out who owns the instants at which something changes, span by span."""
    edges = sorted({edge for span in spans for edge in (span.start_at, span.end_at)})
    expected = []
    for segment in ledger.segments:
        if segment.period not in PARTS or segment.number is None:
            continue
        phase = PHASE_OF[segment.category]
        lead = ledger.attempts[segment.number].lead_rank
        stages = [
            span
            for span in spans
            if (span.number, span.phase) == (segment.number, phase)
            and span.stage is not None
            and span.rank in {None, lead}
        ]
        inside = [edge for edge in edges if segment.start_at <= edge < segment.end_at]
        for at in {segment.start_at, *inside}:
            opened = [span for span in stages if span.start_at <= at < span.end_at]
            last = max(
                opened,
                key=lambda span: (span.start_at, -span.end_at, span.stage or ""),
                default=None,
            )
            expected.append((at, owner_of(phase, last.stage or "" if last else "")))
    return expected


def _innermost(span: RankSpan) -> tuple[int, int, str]:
    return (span.start_at, -span.end_at, span.stage or "")
