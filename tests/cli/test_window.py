import argparse
from datetime import UTC, datetime, timedelta

import pytest

from ett_service.cli.window import instant


@pytest.mark.parametrize(
    ("text", "length"),
    [("7d", timedelta(days=7)), ("-12h", timedelta(hours=12)), ("4w", timedelta(weeks=4))],
)
def test_an_instant_may_be_told_by_how_long_ago_it_was(text: str, length: timedelta) -> None:
    ago = datetime.now(UTC) - datetime.fromisoformat(instant(text))
    assert abs(ago - length) < timedelta(minutes=1)


def test_an_instant_goes_to_the_server_as_it_was_given() -> None:
    assert instant("2026-03-01T08:00:00+01:00") == "2026-03-01T08:00:00+01:00"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-03-01", "7", "7m", "999999w"])
def test_what_is_no_instant_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"RFC 3339|year 1"):
        instant(text)
