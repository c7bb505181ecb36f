"""The events of one attempt, batch after batch."""

from ett_service.core.events import (
    AttemptEnded,
    Event,
    Heartbeat,
    PhaseEnded,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.ledger.attempt_events import AttemptEvents, Placed
from ett_service.core.words import Outcome, Phase


def _placed(*events: Event) -> list[Placed]:
    return [
        (
            event.at,
            type(event) is not PhaseEnded,
            event.id,
            min(event.at, event.start) if isinstance(event, SpanOver) else event.at,
            event,
        )
        for event in events
    ]


def _attempt() -> AttemptEvents:
    return AttemptEvents(("", 0, 0))


def _begin(at: int, rank: int | None = 0, phase: Phase = Phase.LAUNCHER_INIT) -> Event:
    return PhaseStarted(id=f"b{at}-{rank}-{phase}", at=at, rank=rank, phase=phase)


def test_the_stream_is_the_lowest_working_rank_and_what_has_no_rank() -> None:
    attempt = _attempt()
    attempt.add(_placed(_begin(10, rank=3), _begin(12, rank=1), _begin(14, rank=None)))

    assert attempt.lead == 1
    assert [span.begin for span in attempt.spans] == [12, 14]


def test_a_rank_that_only_beats_does_not_lead() -> None:
    attempt = _attempt()
    attempt.add(_placed(Heartbeat(id="h", at=5, rank=0), _begin(10, rank=2)))

    assert (attempt.lead, attempt.first, attempt.heard) == (2, 5, 10)


def test_a_lower_rank_that_turns_up_later_cannot_follow() -> None:
    attempt = _attempt()

    assert attempt.add(_placed(_begin(10, rank=2)))
    assert not attempt.add(_placed(_begin(20, rank=1)))


def test_an_edge_at_or_before_the_last_one_cannot_follow() -> None:
    attempt = _attempt()

    assert attempt.add(_placed(_begin(10)))
    assert not attempt.add(_placed(PhaseEnded(id="e", at=10, rank=0, phase=Phase.LAUNCHER_INIT)))


def test_another_ranks_late_edge_can_follow() -> None:
    attempt = _attempt()

    assert attempt.add(_placed(_begin(10)))
    assert attempt.add(_placed(_begin(5, rank=7)))
    assert attempt.first == 5


def test_an_attempt_that_only_queued_has_not_begun() -> None:
    attempt = _attempt()
    attempt.add(_placed(_begin(10, phase=Phase.QUEUED)))

    assert (attempt.first, attempt.heard) == (None, 10)


def test_a_span_that_starts_after_its_end_has_length_0_and_is_counted() -> None:
    attempt = _attempt()
    attempt.add(_placed(SpanOver(id="s", at=10, start=12, phase=Phase.EVALUATION)))

    assert [(span.begin, span.end) for span in attempt.spans] == [(10, 10)]
    assert len(attempt.clamped) == 1


def test_an_end_of_another_rank_is_kept_as_evidence() -> None:
    attempt = _attempt()
    ended = AttemptEnded(id="e", at=30, rank=5, cycle=0, outcome=Outcome.FAILED)
    attempt.add(_placed(_begin(10), ended))

    assert attempt.ends == [(30, ended)]
    assert attempt.stream_heard == 10


def test_distinct_progress_instants_are_counted_over_batches() -> None:
    attempt = _attempt()
    for at in (10, 20, 30):
        assert attempt.add(_placed(*(Progress(id=f"{at}-{n}", at=at, step=n) for n in (1, 2))))

    assert attempt.progress_instants.count == 3
    assert attempt.top_step == 2
