"""What Alertmanager is pushed."""

from dataclasses import replace

from ett_service.notifications.formats.alertmanager import FORMAT, render
from tests.builders.receivers.notices import FINDING, NOTICE, RESOLVED, named, receiver

ALERTMANAGER = receiver(FORMAT)


def test_what_is_resolved_ends_the_alert_that_it_began() -> None:
    (began,), (ended,) = render(NOTICE, ALERTMANAGER, 100), render(RESOLVED, ALERTMANAGER, 100)
    assert began["labels"] == ended["labels"]
    assert "endsAt" not in began
    assert ended["endsAt"] == "2025-11-19T22:00:00.000000Z"


def test_an_alert_is_known_by_the_same_labels_however_much_else_there_is_to_say() -> None:
    notice = named("界" * 256)
    (short,), (long,) = render(notice, ALERTMANAGER, 15), render(notice, ALERTMANAGER, 300)
    assert short["labels"] == long["labels"]


def test_labels_without_a_value_are_left_out() -> None:
    whole = replace(NOTICE, finding=replace(FINDING, series=FINDING.series._replace(cohort=())))
    (alert,) = render(whole, ALERTMANAGER, 100)
    assert alert["labels"] == {
        "alertname": "EttRegressionActive",
        "metric": "phase_seconds",
        "phase": "pt2_compile",
        "project": "research",
        "severity": "high",
    }


def test_a_test_has_a_label_of_its_own() -> None:
    (alert,) = render(replace(NOTICE, is_test=True), ALERTMANAGER, 100)
    assert alert["labels"]["test"] == "true"
