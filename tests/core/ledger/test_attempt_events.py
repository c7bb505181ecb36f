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


def _track() -> AttemptEvents:
    return AttemptEvents(("", 0, 0))


def _begin(at: int, rank: int | None = 0, phase: Phase = Phase.LAUNCHER_INIT) -> Event:
    return PhaseStarted(id=f"b{at}-{rank}-{phase}", at=at, rank=rank, phase=phase)


def test_the_stream_is_the_lowest_working_rank_and_what_has_no_rank() -> None:
    track = _track()
    track.add(_placed(_begin(10, rank=3), _begin(12, rank=1), _begin(14, rank=None)))

    assert track.lead == 1
    assert [span.begin for span in track.spans] == [12, 14]


def test_a_rank_that_only_beats_does_not_lead() -> None:
    track = _track()
    track.add(_placed(Heartbeat(id="h", at=5, rank=0), _begin(10, rank=2)))

    assert (track.lead, track.first, track.heard) == (2, 5, 10)


def test_a_lower_rank_that_turns_up_later_cannot_follow() -> None:
    track = _track()

    assert track.add(_placed(_begin(10, rank=2)))
    assert not track.add(_placed(_begin(20, rank=1)))


def test_an_edge_at_or_before_the_last_one_cannot_follow() -> None:
    track = _track()

    assert track.add(_placed(_begin(10)))
    assert not track.add(_placed(PhaseEnded(id="e", at=10, rank=0, phase=Phase.LAUNCHER_INIT)))


def test_another_ranks_late_edge_can_follow() -> None:
    track = _track()

    assert track.add(_placed(_begin(10)))
    assert track.add(_placed(_begin(5, rank=7)))
    assert track.first == 5


def test_an_attempt_that_only_queued_has_not_begun() -> None:
    track = _track()
    track.add(_placed(_begin(10, phase=Phase.QUEUED)))

    assert (track.first, track.heard) == (None, 10)


def test_a_span_that_starts_after_its_end_has_length_0_and_is_counted() -> None:
    track = _track()
    track.add(_placed(SpanOver(id="s", at=10, start=12, phase=Phase.EVALUATION)))

    assert [(span.begin, span.end) for span in track.spans] == [(10, 10)]
    assert len(track.clamped) == 1


def test_an_end_of_another_rank_is_kept_as_evidence() -> None:
    track = _track()
    ended = AttemptEnded(id="e", at=30, rank=5, cycle=0, outcome=Outcome.FAILED)
    track.add(_placed(_begin(10), ended))

    assert track.ends == [(30, ended)]
    assert track.stream_heard == 10


def test_distinct_progress_instants_are_counted_over_batches() -> None:
    track = _track()
    for at in (10, 20, 30):
        assert track.add(_placed(*(Progress(id=f"{at}-{n}", at=at, step=n) for n in (1, 2))))

    assert track.progress_instants == 3
    assert track.top_step == 2
