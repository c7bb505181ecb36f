import argparse
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from ett_service.cli.arguments import amount, instant, seconds, share, whole, wholes


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (seconds, "90", 90.0),
        (seconds, "1.5s", 1.5),
        (seconds, "10m", 600.0),
        (seconds, "6h", 21_600.0),
        (seconds, "1.5d", 129_600.0),
        (share, "0.42", 0.42),
        (share, "42%", 0.42),
        (share, "100%", 1.0),
        (amount, "5.04e21", 5.04e21),
        (amount, "3.5", 3.5),
        (whole, "64", 64),
        (whole, "7e9", 7_000_000_000),
        (whole, "1.2e12", 1_200_000_000_000),
        (wholes, "1024,16384", [1024, 16_384]),
    ],
)
def test_numbers_are_read_as_people_write_them(
    read: Callable[[str], object], text: str, value: object
) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "texts"),
    [
        (seconds, ["", "-1", "6 h", "6w", "inf", "1e400", "m", "²m"]),
        (share, ["", "%", "half", "nan", "-1%", "inf"]),
        (amount, ["", "-1", "1e31", "sNaN", "1,5"]),
        (whole, ["0", "-8", "1.5", "1e-1", "1e999999", "NaN"]),
        (wholes, ["", "8,", "8,x"]),
    ],
)
def test_anything_else_is_refused(read: Callable[[str], object], texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)


@pytest.mark.parametrize(
    ("text", "length"),
    [("7d", timedelta(days=7)), ("-12h", timedelta(hours=12)), ("4w", timedelta(weeks=4))],
)
def test_an_instant_may_be_given_as_an_age(text: str, length: timedelta) -> None:
    ago = datetime.now(UTC) - datetime.fromisoformat(instant(text))
    assert abs(ago - length) < timedelta(minutes=1)


def test_an_instant_goes_to_the_server_as_it_was_given() -> None:
    assert instant("2026-03-01T08:00:00+01:00") == "2026-03-01T08:00:00+01:00"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-03-01", "7", "7m", "999999w"])
def test_what_is_no_instant_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"RFC 3339|year 1"):
        instant(text)
