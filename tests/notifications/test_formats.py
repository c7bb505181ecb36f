"""What every format has to do, whatever the names in it are."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from ett_service.core.regressions.finding import Attribution, Impact, Metric
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import Notice, render
from tests.builders.receivers.notices import NAMES, NOTICE, RESOLVED, named, of_metric, receiver

SCHEMAS = Path(__file__).with_name("schemas")
FOR_PEOPLE = ("slack", "pagerduty", "teams")
MOST_BYTES = 20_000


def _validator(schema: Any) -> Draft202012Validator:
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


#: Of the formats whose vendors document one.
VALIDATORS = {file.stem: _validator(json.loads(file.read_text())) for file in SCHEMAS.iterdir()}


def sent(notice: Notice, kind: str) -> Any:
    """Return what a receiver reads, which its schema and its limits hold."""
    body = render(notice, receiver(FORMATS[kind]))
    assert len(body) <= min(MOST_BYTES, FORMATS[kind].most_bytes)
    message = json.loads(body.decode("utf-8"))
    if kind in VALIDATORS:
        VALIDATORS[kind].validate(message)
    return message


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("notice", [NOTICE, RESOLVED], ids=["firing", "resolved"])
def test_a_message_is_what_its_vendor_documents(kind: str, notice: Notice) -> None:
    assert sent(notice, kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_message_says_all_five_things_and_two_examples(kind: str) -> None:
    text = " ".join(_texts(sent(NOTICE, kind))).replace("&gt;", ">")
    for part in (
        "pt2_compile is worse in cluster eu-1, model llm-70b, project research",
        "median 8m 06s -> 13m 24s, +65% (95% interval +48% to +84%)",
        "68 attempts against 140 before",
        "about 2025-11-05 22:00 UTC, reported 2025-11-16 22:00 UTC",
        "image trainer:2.14 (explains 97%)",
        "212 GPU-h/week, USD 742/week, -0.6 pt of ETT",
        "run-42, attempt 3",
        "run-57, attempt 1",
        "ett regressions explain 01JCXK7V4W",
        "https://ett.example/regressions/01JCXK7V4W?project=research",
    ):
        assert part in text, part
    assert "run-58" not in text


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "notice",
    [
        of_metric(Metric.ETT_RATIO, 0.91, 0.88, 0.967),
        of_metric(Metric.FAILURES_PER_GPU_HOUR, 0.0, 0.002, float("inf")),
        of_metric(Metric.TIME_TO_RECOVER_SECONDS, 60e6, 90e6, 1.5),
        replace(NOTICE, attribution=Attribution({}, {}), public_url=""),
        replace(NOTICE, is_test=True),
        replace(NOTICE, finding=replace(NOTICE.finding, impact=Impact(None))),
    ],
    ids=["ETT", "failures", "recovery", "bare", "test", "no GPUs"],
)
def test_a_message_keeps_its_form_whatever_is_known(kind: str, notice: Notice) -> None:
    assert sent(notice, kind)


@pytest.mark.parametrize("kind", FORMATS)
@given(name=NAMES)
@example(name="\u202e" * 256)
@example(name="&" * 256)
@example(name="\x00" * 256)
@example(name="🦜" * 256)
def test_no_name_breaks_a_message(kind: str, name: str) -> None:
    assert sent(named(name), kind)


@pytest.mark.parametrize("kind", FOR_PEOPLE)
@given(name=NAMES)
def test_no_name_hides_or_turns_what_people_read(kind: str, name: str) -> None:
    ours = "\n\N{WORD JOINER}"
    for text in _texts(sent(named(name), kind)):
        assert all(character.isprintable() or character in ours for character in text)


@given(name=NAMES)
def test_no_name_pings_anybody_in_slack(name: str) -> None:
    for text in _texts(sent(named(name), "slack")):
        assert not re.search(r"<[!@#]", text)
        assert not re.search(r"@(here|channel|everyone)", text)
        assert "&" not in re.sub("&(amp|lt|gt);", "", text)


@given(name=NAMES)
def test_teams_gets_half_of_what_it_takes_as_it_may_count_each_character_twice(name: str) -> None:
    assert FORMATS["teams"].most_bytes == 14_000
    sent(named(name), "teams")


@given(kind=st.sampled_from([*FORMATS]))
def test_rendering_is_a_function_of_the_notice(kind: str) -> None:
    assert render(NOTICE, receiver(FORMATS[kind])) == render(NOTICE, receiver(FORMATS[kind]))


@pytest.mark.parametrize("kind", ["generic", "pagerduty", "alertmanager"])
def test_the_examples_of_the_docs_are_messages(kind: str) -> None:
    text = (Path(__file__).parents[2] / "docs/howto/notify-people.md").read_text("utf-8")
    section = text.split(f"### {kind}\n", 1)[1]
    VALIDATORS[kind].validate(json.loads(section.split("```json\n", 1)[1].split("```", 1)[0]))
