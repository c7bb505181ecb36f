"""What Slack reads."""

from dataclasses import replace

from ett_service.notifications.formats.slack import FORMAT, render
from tests.builders.receivers.notices import NOTICE, named, receiver

SLACK = receiver(FORMAT)


def test_a_name_with_slacks_own_marks_is_read_as_it_is() -> None:
    message = render(named("<!channel> & <b>"), SLACK, 100)
    examples = message["blocks"][6]["text"]["text"]
    assert "|&lt;!channel&gt; &amp; &lt;b&gt;, attempt 1>" in examples


def test_a_name_that_calls_people_calls_nobody() -> None:
    text = render(named("@here *now* `x`"), SLACK, 100)["text"]
    assert "@\N{WORD JOINER}here *\N{WORD JOINER}now*\N{WORD JOINER}" in text


def test_a_header_is_cut_to_150_characters_beside_an_escape() -> None:
    message = render(named("&" * 256), SLACK, 300)
    header = message["blocks"][0]["text"]["text"]
    assert len(header) <= 150
    assert header.endswith("&amp;…")


def test_a_bar_in_a_name_does_not_end_an_address() -> None:
    examples = render(named("a|b"), SLACK, 100)["blocks"][6]["text"]["text"]
    assert "/jobs/a%7Cb?project=a%7Cb|a¦b, attempt 1>" in examples


def test_a_test_says_that_it_is_one() -> None:
    message = render(replace(NOTICE, is_test=True), SLACK, 100)
    assert "This is a test: nothing happened." in message["blocks"][-1]["elements"][0]["text"]
