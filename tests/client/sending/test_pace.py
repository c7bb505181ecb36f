"""How long a process waits, and how it spreads what it could not send."""

from ett_service.client.sending.delivery import MAX_BYTES, MAX_EVENTS, Fate, Verdict
from ett_service.client.sending.pace import PAUSE_SECONDS, Pace

LATER, SETTLED = Verdict(Fate.LATER), Verdict(Fate.SETTLED)


def longest(_: float, most: float) -> float:
    return most


def wait_after(pace: Pace, verdict: Verdict, unsent: int = 1, now: float = 0.0) -> float:
    pace.heed(verdict, now, unsent)
    return pace.not_before - now


def test_waits_grow_from_five_seconds_to_a_minute_and_start_again() -> None:
    pace = Pace(draw=longest)
    assert [wait_after(pace, LATER) for _ in range(4)] == [5, 20, 60, 60]
    assert wait_after(pace, SETTLED) == 0
    assert wait_after(pace, LATER) == 5


def test_a_server_may_be_away_for_weeks() -> None:
    pace = Pace(draw=longest)
    assert [wait_after(pace, LATER) for _ in range(20_000)][-1] == 60


def test_a_server_that_names_a_wait_is_waited_for_and_not_by_all_at_once() -> None:
    assert wait_after(Pace(draw=longest), Verdict(Fate.LATER, wait_seconds=30)) == 35
    assert wait_after(Pace(draw=longest), Verdict(Fate.FORBIDDEN)) == 300


def test_a_busy_server_is_waited_for_as_it_asks_and_then_gets_all_at_once() -> None:
    pace, busy = Pace(draw=longest), Verdict(Fate.BUSY, wait_seconds=10)
    assert [wait_after(pace, busy) for _ in range(5)] == [16.0] * 5
    assert wait_after(Pace(draw=lambda least, _: least), busy) == 10
    assert pace.events(100.0) == MAX_EVENTS
    assert wait_after(pace, SETTLED, unsent=1, now=100.0) == 0
    assert pace.tries == 0


def test_what_waited_is_tried_with_a_little_and_spread_over_as_long_as_the_server_was_away() -> (
    None
):
    pace = Pace(draw=longest)
    assert pace.events(0.0) == MAX_EVENTS
    pace.heed(LATER, 0.0, 1)
    assert pace.events(100.0) == 20
    assert wait_after(pace, SETTLED, unsent=1, now=100.0) == 100  # one batch is left: any instant
    assert pace.events(100.0) == 100
    assert wait_after(pace, SETTLED, unsent=3 * 25_000, now=150.0) == 2 * 50 / 5
    assert wait_after(pace, SETTLED, unsent=0, now=150.0) == 0
    assert pace.events(200.0) == MAX_EVENTS
    assert wait_after(pace, SETTLED, unsent=1, now=200.0) == 0


def test_nothing_is_spread_over_more_than_400_seconds() -> None:
    pace = Pace(draw=longest)
    pace.heed(LATER, 0.0, 1)
    assert wait_after(pace, SETTLED, now=21_600.0) == 400


def test_a_long_backlog_without_an_outage_goes_out_ten_times_a_second() -> None:
    assert wait_after(Pace(), SETTLED, unsent=MAX_BYTES + 1) == PAUSE_SECONDS


def test_whoever_hurries_waits_for_nothing() -> None:
    pace = Pace(draw=longest)
    pace.heed(LATER, 0.0, 1)
    pace.hurry()
    assert pace.not_before == 0
    assert wait_after(pace, SETTLED, now=1000.0) == 0
