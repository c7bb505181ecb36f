"""What PagerDuty reads."""

from dataclasses import replace

import pytest

from ett_service.notifications.formats.pagerduty import FORMAT, render
from tests.builders.receivers.notices import NOTICE, RESOLVED, named, receiver

PAGERDUTY = receiver(FORMAT)


def test_what_is_resolved_resolves_the_incident_that_it_began() -> None:
    began, ended = render(NOTICE, PAGERDUTY, 100), render(RESOLVED, PAGERDUTY, 100)
    assert (began["event_action"], ended["event_action"]) == ("trigger", "resolve")
    assert began["dedup_key"] == ended["dedup_key"] == NOTICE.fingerprint
    assert began["routing_key"] == ended["routing_key"] == "R0UT1NGKEY"


@pytest.mark.parametrize(
    ("severity", "theirs"),
    [("high", "error"), ("medium", "warning"), ("low", "info"), ("another", "warning")],
)
def test_severities_are_reported_in_their_words(severity: str, theirs: str) -> None:
    message = render(replace(NOTICE, severity=severity), PAGERDUTY, 100)
    assert message["payload"]["severity"] == theirs


def test_a_test_wakes_nobody() -> None:
    message = render(replace(NOTICE, is_test=True), PAGERDUTY, 100)
    assert message["payload"]["severity"] == "info"
    assert message["payload"]["custom_details"]["remark"] == "This is a test: nothing happened."


def test_a_summary_is_cut_to_1024_characters() -> None:
    summary = render(named("é" * 256), PAGERDUTY, 300)["payload"]["summary"]
    assert len(summary) == 1024
    assert summary.endswith("…")
