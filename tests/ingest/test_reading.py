"""Which text is refused, and which is mended."""

import pytest

from ett_service.core.words import Outcome
from ett_service.ingest import members
from ett_service.ingest.members import Frame
from ett_service.ingest.refusals import Code, Fault
from ett_service.ingest.wire import Limits
from tests.builders.clock import NOON

FRAME = Frame(Limits(), NOON)


@pytest.mark.parametrize("name", ["llm-70b", "七十億 b", "a.b", "...", "é", "x" * 200, "😀", "a b"])
def test_a_job_may_have_any_name_that_can_be_shown(name: str) -> None:
    assert members.job(name, FRAME) == name


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        ".",
        "..",
        " ",
        "\u3164",
        "\u2800 \ufe0f",
        "a\n",
        "a\x00",
        "a\x7f",
        "a\x85",
        "e\u0301",
        "a\u202eb",
        "a\u2066b",
        "a\u200b",
        "\ufffd",
    ],
)
def test_a_job_whose_name_cannot_be_shown_or_addressed_is_refused(name: str) -> None:
    with pytest.raises(Fault) as refused:
        members.job(name, FRAME)

    assert refused.value.code is Code.BAD_JOB


@pytest.mark.parametrize("value", ["a\nb", "\x1b[31m", "a\u202eb", "\ufffd"])
def test_text_that_cannot_be_shown_on_one_line_is_refused(value: str) -> None:
    for reader in (members.text, lambda text, frame: members.labels({"k": text}, frame)):
        with pytest.raises(Fault) as refused:
            reader(value, FRAME)
        assert refused.value.code is Code.BAD_TEXT


@pytest.mark.parametrize(
    ("sent", "mended"),
    [
        ("line 1\nline 2\tx\r\n", "line 1\nline 2\tx\r\n"),
        ("boom\x00", "boom\ufffd"),
        ("\x1b[31mred\x07\x7f\x9b", "\ufffd[31mred\ufffd\ufffd\ufffd"),
        ("half \ud83d of a pair", "half \ufffd of a pair"),
        ("e\u0301 \u202e 😀", "e\u0301 \u202e 😀"),
    ],
)
def test_a_crash_log_is_mended_and_keeps_its_lines(sent: str, mended: str) -> None:
    assert members.log(sent, FRAME) == mended
    assert members.attributes({"log": [sent]}, FRAME) == {"log": [mended]}


@pytest.mark.parametrize("number", [2**53, -(2**53), 10**30])
def test_a_number_that_not_every_reader_keeps_exact_is_refused(number: int) -> None:
    with pytest.raises(Fault) as refused:
        members.attributes({"n": [number]}, FRAME)

    assert refused.value.code is Code.OUT_OF_RANGE
    assert members.attributes({"n": number // abs(number) * (2**53 - 1)}, FRAME)


def test_attributes_may_be_as_deep_as_the_limit_and_no_deeper() -> None:
    value: object = 1
    for _ in range(6):
        value = [value]
    assert members.attributes({"a": value}, FRAME) == {"a": value}

    with pytest.raises(Fault) as refused:
        members.attributes({"a": [value]}, FRAME)
    assert refused.value.code is Code.TOO_DEEP


@pytest.mark.parametrize(("sent", "number"), [("SIGKILL", 9), (9, 9), ("SIGTERM", 15), (0, 0)])
def test_a_signal_is_kept_as_its_number(sent: int | str, number: int) -> None:
    assert members.signal_number(sent, FRAME) == number


@pytest.mark.parametrize("sent", ["SIGNOTHING", "SIGKILL\n", "SIG_DFL"])
def test_a_signal_without_a_number_is_refused(sent: str) -> None:
    with pytest.raises(Fault) as refused:
        members.signal_number(sent, FRAME)

    assert refused.value.code is Code.UNKNOWN_VALUE


def test_an_outcome_is_a_word_of_the_core() -> None:
    assert members.outcome("failed", FRAME) is Outcome.FAILED


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("1970-01-01T00:00:00Z", True),
        ("1969-12-31T23:59:59.999999Z", False),
        ("2026-03-02T12:00:00Z", True),
        ("2026-03-02T12:00:00.000001Z", False),
    ],
)
def test_an_event_lies_between_1970_and_a_day_from_now(text: str, is_taken: bool) -> None:
    if is_taken:
        members.instant(text, FRAME)
        return
    with pytest.raises(Fault) as refused:
        members.instant(text, FRAME)
    assert refused.value.code is Code.TIMESTAMP_OUT_OF_RANGE
