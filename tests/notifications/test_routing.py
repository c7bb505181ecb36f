"""Receivers hear of what they are to hear of, and of nothing of other projects."""

from dataclasses import replace

import pytest

from ett_service.notifications.routing import OF_SETTINGS, Receiver, targets
from tests.notifications.notices import FINDING, NOTICE

WHOLE = replace(NOTICE, finding=replace(FINDING, series=FINDING.series._replace(cohort=())))


def _told(where: dict[str, str], owner: int = OF_SETTINGS) -> bool:
    return bool(targets(NOTICE, [Receiver(owner, "a", "https://a.example", where=where)]))


def test_a_receiver_of_another_project_hears_nothing() -> None:
    assert _told({}, owner=1)
    assert _told({})
    assert not _told({}, owner=2)


@pytest.mark.parametrize(
    ("where", "is_told"),
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
    where: dict[str, str], is_told: bool
) -> None:
    assert _told(where) is is_told


def test_what_concerns_the_whole_project_concerns_every_part_of_it() -> None:
    receiver = Receiver(1, "a", "https://a.example", where={"model": "llm-7b"})
    assert targets(WHOLE, [receiver]) == [receiver]


def test_neither_address_nor_secret_of_a_receiver_is_in_its_repr() -> None:
    told = repr(Receiver(1, "a", "https://hooks.example/T0K3N", secrets=("whsec_CANARY",)))
    assert "T0K3N" not in told
    assert "CANARY" not in told
