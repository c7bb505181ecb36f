"""Receivers are notified of what they want, and of nothing of other projects."""

from dataclasses import replace

import pytest

from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import Notice
from ett_service.notifications.receiver import OF_SETTINGS, Receiver
from ett_service.notifications.routing import targets
from tests.notifications.notices import FINDING, NOTICE

WHOLE = replace(NOTICE, finding=replace(FINDING, series=FINDING.series._replace(cohort=())))


def _receiver(where: dict[str, str], owner: int = OF_SETTINGS) -> Receiver:
    return Receiver(owner, "a", "https://a.example/T0K3N", FORMATS["generic"], ("CANARY",), where)


def _is_target(receiver: Receiver, notice: Notice = NOTICE) -> bool:
    return targets(notice, [receiver]) == [receiver]


def test_a_receiver_of_another_project_hears_nothing() -> None:
    assert _is_target(_receiver({}, owner=1))
    assert _is_target(_receiver({}))
    assert not _is_target(_receiver({}, owner=2))


@pytest.mark.parametrize(
    ("where", "is_wanted"),
    [
        ({}, True),
        ({"model": "llm-70b"}, True),
        ({"model": "llm-70b", "cluster": "eu-1"}, True),
        ({"model": "llm-70b", "cluster": "us-1"}, False),
        ({"model": "llm-7b"}, False),
        ({"team": "nlp"}, True),
        ({"project": "research"}, True),
        ({"project": "other"}, False),
    ],
)
def test_a_receiver_hears_of_the_cohorts_that_it_asked_for(
    where: dict[str, str], is_wanted: bool
) -> None:
    assert _is_target(_receiver(where)) is is_wanted


def test_what_concerns_the_whole_project_concerns_every_part_of_it() -> None:
    assert _is_target(_receiver({"model": "llm-7b"}, owner=1), WHOLE)


def test_neither_address_nor_secret_of_a_receiver_is_in_its_repr() -> None:
    text = repr(_receiver({}))
    assert "T0K3N" not in text
    assert "CANARY" not in text
