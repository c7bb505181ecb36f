"""The labelled messages: whole, sourced, short, and parted by their ids alone."""

import re
from collections import Counter

from benchmarks.failures.messages import Half, half_of, read_messages
from ett_service.core.words import ORIGIN_OF_CAUSE, Cause, Origin

MESSAGES = read_messages()


def test_there_are_enough_of_them_with_ids_of_their_own() -> None:
    assert len(MESSAGES) >= 150
    assert len({message.id for message in MESSAGES}) == len(MESSAGES)
    assert [message.id for message in MESSAGES] == sorted(message.id for message in MESSAGES)


def test_the_id_alone_decides_the_half() -> None:
    assert all(message.half is half_of(message.id) for message in MESSAGES)
    count = Counter(message.half for message in MESSAGES)
    assert min(count[half] for half in Half) > 0.4 * len(MESSAGES)


def test_each_names_a_public_thread_and_quotes_a_few_lines_of_it() -> None:
    for message in MESSAGES:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", message.source), message.id
        text = message.message or ""
        assert len(text) <= 800, message.id
        assert text.count("\n") <= 7, message.id


def test_each_has_evidence_for_the_rules_to_look_at() -> None:
    for message in MESSAGES:
        evidence = (
            message.exception,
            message.message,
            message.exit_code,
            message.signal,
            message.scheduler_state,
        )
        assert any(part is not None for part in evidence), message.id


def test_only_a_quota_has_another_origin_than_its_cause() -> None:
    for message in MESSAGES:
        if message.origin is not ORIGIN_OF_CAUSE[message.cause]:
            assert (message.origin, message.cause) == (Origin.USER, Cause.STORAGE), message.id
            assert "quota" in (message.message or ""), message.id


def test_what_the_text_leaves_open_says_why_it_is_labelled_so() -> None:
    for message in MESSAGES:
        assert message.cause is not Cause.UNKNOWN or message.why, message.id
