"""Producers' clocks: monotonic differences inside one, offsets across them."""

from ett_service.core.events import Heartbeat
from ett_service.core.ledger.attempts.attempts import TOLERANCE_US, Clocks

SECOND = 1_000_000


def _beat(at: int, mono_us: int | None, producer: str | None = "p") -> Heartbeat:
    return Heartbeat(id=f"{at}-{mono_us}", at=at, mono_us=mono_us, producer=producer)


def test_a_stepped_wall_clock_is_set_right_by_the_monotonic_one() -> None:
    before, after = _beat(100 * SECOND, 5 * SECOND), _beat(3_700 * SECOND, 7 * SECOND)
    clocks = Clocks()
    clocks.admit([after, before], {})

    assert after.at + clocks.shift_us(after) == 102 * SECOND
    assert clocks.flagged == ("p",)


def test_of_two_events_on_one_reading_the_earlier_instant_counts() -> None:
    early, late = _beat(100, 5), _beat(120, 5)
    clocks = Clocks()
    clocks.admit([late, early], {})

    assert [event.at + clocks.shift_us(event) for event in (early, late)] == [100, 100]


def test_an_offset_within_the_tolerance_is_the_networks_and_left_alone() -> None:
    beat = _beat(100, None)
    clocks = Clocks()
    clocks.admit([beat], {"p": TOLERANCE_US})

    assert clocks.shift_us(beat) == 0
    assert clocks.flagged == ()


def test_a_larger_offset_moves_the_producer_and_is_flagged() -> None:
    beat, other = _beat(100, None), _beat(100, None, producer=None)
    clocks = Clocks()
    clocks.admit([beat, other], {"p": -TOLERANCE_US - 1})

    assert clocks.shift_us(beat) == -TOLERANCE_US - 1
    assert clocks.shift_us(other) == 0
    assert clocks.flagged == ("p",)


def test_a_reading_that_would_move_what_was_placed_is_not_admitted() -> None:
    clocks = Clocks()

    assert clocks.admit([_beat(100, 50)], {})
    assert clocks.admit([_beat(110, 60)], {})
    assert not clocks.admit([_beat(80, 40)], {})


def test_an_offset_that_changes_later_is_not_admitted() -> None:
    clocks = Clocks()

    assert clocks.admit([_beat(100, None)], {"p": 3 * SECOND})
    assert not clocks.admit([_beat(110, None)], {"p": 4 * SECOND})
