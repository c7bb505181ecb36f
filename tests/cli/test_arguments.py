import argparse
from argparse import Action, ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from ett_service.cli.arguments import amount, bound, instant, seconds, share, whole, wholes
from ett_service.cli.main import VERBS, parser


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (seconds, "90s", 90.0),
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
        (seconds, ["", "3", "-1", "6 h", "6w", "inf", "1e400", "m", "²m"]),
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


def test_an_age_bounds_a_window_as_long_as_it_says() -> None:
    hour = timedelta(hours=1).total_seconds()
    now = datetime.now(UTC)
    begin = datetime.fromisoformat(bound("7d"))
    assert begin.timestamp() % hour == 0
    assert now <= begin + timedelta(days=7) < now + timedelta(hours=1, seconds=10)
    assert datetime.fromisoformat(bound("2d")) - begin == timedelta(days=5)
    assert bound("2026-11-09") == "2026-11-09T00:00:00Z"


def test_an_instant_goes_to_the_server_as_it_was_given() -> None:
    assert instant("2026-03-01T08:00:00+01:00") == "2026-03-01T08:00:00+01:00"
    assert instant("2026-03-01 08:00:00Z") == "2026-03-01T08:00:00Z"


def test_a_day_stands_for_its_first_instant_in_utc() -> None:
    assert instant("2026-11-09") == "2026-11-09T00:00:00Z"
    with pytest.raises(ArgumentTypeError, match="no day of the calendar"):
        instant("2026-02-30")


def test_every_verb_reads_a_day_where_it_reads_an_instant() -> None:
    """Whatever is an instant is declared by ``when``, or read by a function that knows days."""
    read = {
        f"{word} {act} {option}".replace("  ", " "): action
        for word, act, option, action in _options()
        if option in ("--from", "--to", "--at", "--end", "--until", "--base-from", "--base-to")
    }
    assert len(read) > 25
    for name, action in read.items():
        assert callable(action.type), f"{name} is not checked here"
    assert {str(_read(action)) for action in read.values()} == {
        "2026-03-01T00:00:00Z",
        str(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1e6).removesuffix(".0"),
    }


def _read(action: Action) -> object:
    assert callable(action.type)
    return action.type("2026-03-01")


def _options() -> Iterator[tuple[str, str, str, Action]]:
    for word in VERBS:
        yield from _of(word, "", _acts_of(parser(word))[word])


def _of(word: str, act: str, verb: ArgumentParser) -> Iterator[tuple[str, str, str, Action]]:
    for action in verb._actions:  # noqa: SLF001 - nothing public lists them
        for option in action.option_strings:
            yield word, act, option, action
    for name, other in _acts_of(verb).items():
        yield from _of(word, f"{act} {name}".strip(), other)


def _acts_of(verb: ArgumentParser) -> Mapping[str, ArgumentParser]:
    for action in verb._actions:  # noqa: SLF001
        if isinstance(action, _SubParsersAction):
            return action.choices
    return {}


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30", "2026-3-1", "7", "7m", "999999w"])
def test_what_is_no_instant_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"RFC 3339|year 1|calendar"):
        instant(text)
