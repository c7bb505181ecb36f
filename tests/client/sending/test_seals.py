"""What the seal of a line finds, and what it lets pass."""

import json

import pytest

from ett_service.client.identity import Identity
from ett_service.client.lines import Lines
from ett_service.client.sending.seals import Unsealing, bare

LINES = Lines(Identity("j", "launch", rank=3, host="node-é"), "P")
AT = 1_234_567
LINE = LINES.line({"type": "progress", "step": 617}, AT)
SEALS = Unsealing("P", LINES.base_us)


def test_what_is_whole_is_the_event_without_its_seal() -> None:
    event = SEALS.event(LINE)
    assert event == bare(LINE)
    assert json.loads(event) == {
        name: value for name, value in json.loads(LINE).items() if name != "crc"
    }


def test_an_instant_before_the_machine_began_is_whole() -> None:
    assert SEALS.event(LINES.line({"type": "heartbeat"}, -7_000_001)) is not None


@pytest.mark.parametrize(
    ("was", "became"),
    [
        (b"progress", b"progrets"),
        (b":617", b":610"),
        (b":617", b":61 "),
        (b'"seq":', b'"sea":'),
        (b'"P-', b'"Q-'),
        (b":1234567", b":1234568"),
        (b":1234567", b":234567"),
        (b":1234567", b":999999999999999999"),
        (b'Z"}', b'Y"}'),
        (b'{"crc"', b'{"crd"'),
        (b"\n", b"\n\n"),
    ],
)
def test_what_has_become_something_else_is_found(was: bytes, became: bytes) -> None:
    assert LINE.count(was) == 1
    assert SEALS.event(LINE.replace(was, became)) is None


def test_a_second_that_has_become_another_is_found() -> None:
    at = LINES.at(AT).encode()
    assert SEALS.event(LINE.replace(at, LINES.at(AT + 1_000_000).encode())) is None
    assert SEALS.event(LINE) is not None


def test_without_the_base_of_its_clock_instants_are_taken_as_they_are() -> None:
    other = LINE.replace(b":1234567", b":1234568")
    assert Unsealing("P", None).event(other) == bare(other)
