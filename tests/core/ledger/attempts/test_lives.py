"""Which cycle a life, and an event without one, belongs to."""

import pytest

from ett_service.core.events import AttemptEnded, AttemptStarted, Event, Heartbeat, Progress
from ett_service.core.ledger.attempts.attempts import Attempts, Clocks
from ett_service.core.ledger.attempts.lives import NO_RESTARTS, Lives
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import Quality
from ett_service.core.words import Outcome
from tests.core.timeline import SECOND


def _start(at: int, rank: int | None, producer: str | None, cycle: int | None = 0) -> Event:
    name = f"{producer}-{at}"
    return AttemptStarted(id=name, at=at, rank=rank, producer=producer, cycle=cycle)


def _beat(at: int, rank: int | None, producer: str | None, cycle: int = 0) -> Event:
    return Heartbeat(id=f"b{at}", at=at, rank=rank, producer=producer, cycle=cycle)


def _lives(*starts: Event) -> Lives:
    begins = {(event.cycle or 0, event.rank, event.producer): event.at for event in starts}
    lives = Lives()
    assert not lives.recount(begins)  # type: ignore[arg-type]
    return lives


def _cycles(*starts: Event) -> list[int]:
    lives = _lives(*starts)
    return [lives.cycle_of(event, event.at) for event in starts]


TWO_RANKS = (_start(0, 0, "a"), _start(1, 1, "b"))


def test_a_second_process_of_a_rank_begins_a_cycle_for_all() -> None:
    assert _cycles(*TWO_RANKS, _start(30, 1, "c", 1), _start(31, 0, "d")) == [0, 0, 1, 1]
    assert _cycles(*TWO_RANKS, _start(30, 0, "d"), _start(31, 1, "c", 1)) == [0, 0, 1, 1]


def test_a_rank_that_joins_late_begins_none() -> None:
    starts = (_start(0, 0, "a"), _start(30, 0, "c"), _start(33, 1, "d"))
    assert _cycles(*starts) == [0, 1, 1]


def test_a_rank_whose_node_began_again_first_belongs_to_the_next_cycle() -> None:
    starts = (_start(0, 0, "a"), _start(29, 1, "b"), _start(30, 0, "c"))
    assert _cycles(*starts) == [0, 1, 1]


def test_a_count_above_the_cycles_stands() -> None:
    starts = (*TWO_RANKS, _start(30, 0, "c"), _start(60, 0, "d", 5), _start(61, 1, "e", 5))
    assert _cycles(*starts) == [0, 0, 1, 5, 5]


@pytest.mark.parametrize(
    "starts",
    [
        (_start(0, 0, "a"), _start(30, 0, "c", 1)),
        (_start(0, 0, "a"), _start(30, 0, "a")),
        (_start(0, None, "a"), _start(30, None, "c")),
        (_start(0, 0, None), _start(30, 0, None)),
    ],
)
def test_cycles_are_as_sent_where_no_rank_has_two_lives(starts: tuple[Event, ...]) -> None:
    attempts = Attempts()
    assert attempts.add(starts, Clocks())
    assert attempts.events_of.keys() == {("", 0, event.cycle or 0) for event in starts}
    assert attempts.restarts() is NO_RESTARTS


def test_events_without_a_life_go_with_the_lives_of_their_sender() -> None:
    lives = _lives(*TWO_RANKS, _start(30, 1, "c", 1), _start(31, 0, "d"), _start(60, 0, "e", 1))
    fork, agent = _beat(5, 0, "fork"), _beat(40, None, "agent")
    assert [lives.cycle_of(event, event.at) for event in (fork, agent)] == [0, 1]
    assert lives.cycle_of(_beat(-9, None, "early", 1), -9) == 1
    assert lives.cycle_of(_beat(70, None, "early", 1), 70) == 2
    assert lives.cycle_of(_beat(70, None, "new", 9), 70) == 9


def test_a_life_that_takes_an_earlier_event_cannot_follow() -> None:
    attempts = Attempts()
    assert attempts.add([*TWO_RANKS, _start(30, 0, "c"), _beat(40, None, "agent")], Clocks())
    assert attempts.add([_start(50, 1, "d")], Clocks())
    assert not attempts.add([_start(35, 0, "e")], Clocks())


def test_a_cycle_that_a_scheduler_counts_stands_also_before_its_life_begins() -> None:
    lives = _lives(_start(0, 0, "a"), _start(50, 0, "b"))
    scheduler = [_beat(at, None, None, 1) for at in (40, 60)]
    assert [lives.cycle_of(event, event.at) for event in scheduler] == [1, 1]


def test_a_life_that_begins_after_all_others_follows() -> None:
    attempts = Attempts()
    assert attempts.add([*TWO_RANKS, _start(30, 0, "c"), _start(31, 1, "d")], Clocks())
    assert attempts.add([_start(60, 0, "e"), _beat(61, 0, "e")], Clocks())
    assert sorted(key[2] for key in attempts.events_of) == [0, 1, 2]


def _quality(*events: Event) -> Quality:
    return fold(events, {}, 100 * SECOND).quality


def test_a_restart_is_reported_by_whichever_rank_counts_it() -> None:
    quality = _quality(*TWO_RANKS, _start(30, 1, "c", 1), _start(31, 0, "d"))
    assert (quality.unreported_restarts, quality.restart_counts_disagree) == (0, 1)
    (gap,) = [gap for gap in quality.gaps if gap.kind == "restart_counts_disagree"]
    assert (gap.number, gap.start_at) == (1, 30)


def test_a_restart_that_nobody_counts_is_counted_as_that() -> None:
    quality = _quality(*TWO_RANKS, _start(30, 1, "c"), _start(31, 0, "d"))
    assert (quality.unreported_restarts, quality.restart_counts_disagree) == (1, 0)
    assert [gap.number for gap in quality.gaps if gap.kind == "unreported_restart"] == [1]


def test_an_end_without_a_cycle_ends_the_latest_life_that_had_begun() -> None:
    end = AttemptEnded(id="e", at=40, outcome=Outcome.FAILED)
    ledger = fold([*TWO_RANKS, _start(30, 0, "c"), _start(60, 0, "d"), end], {}, 100)
    outcomes = [attempt.outcome for attempt in ledger.attempts]
    assert outcomes == [Outcome.LOST, Outcome.FAILED, Outcome.RUNNING]


def test_lives_are_ordered_by_corrected_clocks() -> None:
    late = Progress(id="p", at=5, rank=0, producer="c", cycle=0, step=1)
    starts = (*TWO_RANKS, _start(-30 * SECOND, 0, "c"), late)
    assert fold(starts, {"c": 60 * SECOND}, 100).attempts[1].last_step == 1
