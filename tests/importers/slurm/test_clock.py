"""The times that ``sacct`` prints."""

import pytest

from ett_service.importers.instants import zone
from ett_service.importers.slurm.clock import Clock, Times, seconds_of, utc, written

BERLIN = zone("Europe/Berlin")
SUNDAY = 1_761_436_800  # 2025-10-26T00:00:00Z; an hour later clocks in Berlin are put back


def times(clock: Clock, *texts: str, elapsed: int | None = None) -> Times:
    return clock.times([*texts, *["Unknown"] * (4 - len(texts))], elapsed)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-03-01T12:00:00", 1_772_366_400),
        ("2026-03-01T12:00:00+01:00", 1_772_362_800),
        ("2026-03-01T12:00:00Z", 1_772_366_400),
        ("1772366400", 1_772_366_400),
        ("Unknown", None),
        ("None", None),
        ("N/A", None),
        ("", None),
        ("0", None),
    ],
)
def test_a_time_is_placed(text: str, at: int | None) -> None:
    assert times(utc(), text).submit == at
    assert at is None or written(at).endswith("Z")


@pytest.mark.parametrize("text", ["2026-03-01", "12:00:00", "yesterday", "2026-02-30T00:00:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"isoformat|out of range|^12|^2026"):
        times(utc(), text)


def test_a_local_time_is_placed_by_its_zone() -> None:
    clock = Clock(BERLIN)
    assert times(clock, "2026-03-01T12:00:00").submit == 1_772_362_800
    assert clock.unsure is None


def test_of_an_hour_that_is_shown_twice_the_first_is_meant_and_marked_unsure() -> None:
    clock = Clock(BERLIN)
    assert times(clock, "2025-10-26T02:30:00").submit == SUNDAY + 1800
    assert clock.unsure == "2025-10-26T02:30:00"


def test_the_time_before_decides_which_of_the_two_is_meant() -> None:
    clock = Clock(BERLIN)
    assert times(clock, "2025-10-26T02:50:00", "2025-10-26T02:10:00") == (
        SUNDAY + 3000,
        SUNDAY + 4200,
        None,
        None,
    )
    assert clock.unsure is None


def test_the_time_that_elapsed_decides_which_of_the_two_is_meant() -> None:
    clock = Clock(BERLIN)
    texts = ("2025-10-26T00:00:00",) * 3
    placed = times(clock, *texts, "2025-10-26T02:30:00", elapsed=9000 + 3600)
    assert placed.end == SUNDAY + 1800 + 3600
    assert clock.unsure is None


def test_an_hour_that_no_clock_showed_is_unsure() -> None:
    clock = Clock(BERLIN)
    times(clock, "2026-03-29T02:30:00")
    assert clock.unsure == "2026-03-29T02:30:00"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:00:48", 48), ("1-02:03:04", 93_784), ("03:04", 184), ("77", 77), ("", None), ("x", None)],
)
def test_lengths(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds
