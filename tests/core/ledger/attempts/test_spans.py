"""Edges paired to spans, and what ends a span that was left open."""

import pytest

from ett_service.core.events import PhaseEnded, PhaseStarted, Progress
from ett_service.core.ledger.attempts.attempt_events import AttemptEvents
from ett_service.core.ledger.attempts.spans import NEVER, Pairing, Span, find_closing
from ett_service.core.words import Phase

LOOP = Phase.TRAIN_LOOP


def _begin(at: int, phase: Phase = LOOP, rank: int | None = None) -> PhaseStarted:
    return PhaseStarted(id=f"b{at}{phase}{rank}", at=at, phase=phase, rank=rank)


def _end(at: int, name: str = "", rank: int | None = None) -> PhaseEnded:
    return PhaseEnded(id=f"e{at}{name}", at=at, phase=LOOP, rank=rank)


def test_an_end_closes_the_span_that_began_last_before_it() -> None:
    pairing = Pairing()
    older, newer = pairing.begin(_begin(10), 10), pairing.begin(_begin(20), 20)

    assert pairing.end(_end(30), 30) is newer
    assert older is not None
    assert older.own_end is None


def test_ranks_do_not_pair_with_each_other() -> None:
    pairing = Pairing()
    pairing.begin(_begin(10, rank=0), 10)

    assert pairing.end(_end(20, rank=1), 20) is None
    assert list(pairing.unmatched) == ["e20"]


def test_an_end_with_nothing_open_closes_a_begin_of_its_own_instant_at_length_0() -> None:
    pairing = Pairing()
    pairing.end(_end(10), 10)
    span = pairing.begin(_begin(10), 10)

    assert span is not None
    assert (span.begin, span.own_end) == (10, 10)
    assert pairing.unmatched == {}


def test_begins_of_one_instant_are_one() -> None:
    pairing = Pairing()

    assert pairing.begin(_begin(10), 10) is not None
    assert pairing.begin(_begin(10), 10) is None


@pytest.mark.parametrize(
    ("phase", "closer", "closes"),
    [
        (Phase.SCHEDULING, Phase.HARDWARE_SETUP, True),
        (Phase.HARDWARE_SETUP, Phase.SCHEDULING, False),
        (Phase.LAUNCHER_INIT, Phase.LAUNCHER_INIT, True),
        (Phase.LAUNCHER_INIT, Phase.PT2_COMPILE, False),
        (Phase.EVALUATION, Phase.QUEUED, True),
        (Phase.EVALUATION, Phase.CHECKPOINT_BLOCKING, False),
        (Phase.SHUTDOWN, Phase.TRAIN_LOOP, False),
    ],
)
def test_what_begins_ends_what_was_left_open(phase: Phase, closer: Phase, closes: bool) -> None:
    span = Span(phase, 10, None, "s")
    closing = find_closing(span, {closer: [(10, 0, "same instant"), (20, 0, "later")]}, [])

    assert closing == ((20, "later") if closes else (NEVER, None))


@pytest.mark.parametrize(
    ("phase", "limit", "in_loop"),
    [
        (Phase.CHECKPOINT_BLOCKING, 30, None),
        (Phase.STALLED, 30, None),
        (Phase.PT2_COMPILE, NEVER, (30, "q")),
        (Phase.LAUNCHER_INIT, NEVER, None),
    ],
)
def test_progress_ends_what_stops_the_loop_and_compiles_inside_it(
    phase: Phase, limit: int, in_loop: tuple[int, str] | None
) -> None:
    attempt = AttemptEvents(("", 0, 0))
    began = PhaseStarted(id="s", at=10, phase=phase)
    steps = [Progress(id=name, at=at, step=at) for name, at in (("p", 10), ("q", 30))]
    attempt.add([(fact.at, True, fact.id, fact.at, fact) for fact in (began, *steps)])

    (span,) = attempt.loose
    assert (span.limit, attempt.in_loop.get(span)) == (limit, in_loop)
