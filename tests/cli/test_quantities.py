import argparse
from collections.abc import Callable

import pytest

from ett_service.cli.quantities import amount, seconds, share, whole, wholes


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
