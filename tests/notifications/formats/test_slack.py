"""What Slack reads."""

from dataclasses import replace

from ett_service.notifications.formats.slack import body
from ett_service.notifications.routing import Format
from tests.notifications.notices import NOTICE, named, receiver

SLACK = receiver(Format.SLACK)


def test_a_name_with_slacks_own_marks_is_read_as_it_is() -> None:
    told = body(named("<!channel> & <b>"), SLACK, 100)
    examples = told["blocks"][6]["text"]["text"]
    assert "|&lt;!channel&gt; &amp; &lt;b&gt;, attempt 1>" in examples


def test_a_name_that_calls_people_calls_nobody() -> None:
    said = body(named("@here *now* `x`"), SLACK, 100)["text"]
    assert "@\N{WORD JOINER}here *\N{WORD JOINER}now*\N{WORD JOINER}" in said


def test_a_header_is_cut_to_150_characters_beside_an_escape() -> None:
    told = body(named("&" * 256), SLACK, 300)
    header = told["blocks"][0]["text"]["text"]
    assert len(header) <= 150
    assert header.endswith("&amp;…")


def test_a_bar_in_a_name_does_not_end_an_address() -> None:
    examples = body(named("a|b"), SLACK, 100)["blocks"][6]["text"]["text"]
    assert "/jobs/a%7Cb/attempts?project=a%7Cb|a¦b, attempt 1>" in examples


def test_a_test_says_that_it_is_one() -> None:
    told = body(replace(NOTICE, is_test=True), SLACK, 100)
    assert "This is a test: nothing happened." in told["blocks"][-1]["elements"][0]["text"]
