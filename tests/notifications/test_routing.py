"""Receivers are notified of what they want, and of nothing of other projects."""

import logging
from dataclasses import replace
from functools import partial

import pytest

from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import OF_SETTINGS, Notice, Receiver
from ett_service.notifications.routing import Directory, targets
from ett_service.storage.engine.seal import CannotUnseal, Keyring
from ett_service.storage.engine.store import Store
from ett_service.storage.receivers import receivers
from ett_service.storage.receivers.receivers import NewReceiver
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.receivers.notices import FINDING, NOTICE

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


KEYRING, OTHER = Keyring("k" * 32), Keyring("o" * 32)
NAMED = Receiver(OF_SETTINGS, "fleet", "https://alerts.example/fleet", FORMATS["generic"])


def _add(store: Store, project_id: int, name: str, keyring: Keyring) -> None:
    new = NewReceiver(name, f"https://{name}.example/x", "slack", "", {"model": "m"})
    add = partial(receivers.add, project_id=project_id, new=new, keyring=keyring)
    store.write(lambda conn: add(conn, made_by="ett_4Zk0Xw7b", now_us=NOON))


@ON_ONE_ENGINE
def test_all_receivers_are_found_whoever_named_them(store: Store, project_id: int) -> None:
    _add(store, project_id, "team", KEYRING)
    directory = Directory([NAMED], KEYRING)
    team = Receiver(
        project_id, "team", "https://team.example/x", FORMATS["slack"], where={"model": "m"}
    )
    with store.reading() as conn:
        assert directory.all(conn, NOON) == [NAMED, team]
        assert directory.find(conn, OF_SETTINGS, "fleet", NOON) == NAMED
        assert directory.find(conn, project_id, "team", NOON) == team
        assert directory.find(conn, project_id, "fleet", NOON) is None
        assert directory.find(conn, OF_SETTINGS, "team", NOON) is None


@ON_ONE_ENGINE
def test_one_that_cannot_be_read_keeps_no_other_from_being_sent(
    store: Store, project_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    _add(store, project_id, "lost", OTHER)
    _add(store, project_id, "team", KEYRING)
    directory = Directory([NAMED], KEYRING)
    with store.reading() as conn, caplog.at_level(logging.WARNING):
        assert [receiver.name for receiver in directory.all(conn, NOON)] == ["fleet", "team"]
        with pytest.raises(CannotUnseal):
            directory.find(conn, project_id, "lost", NOON)
    assert "Receiver lost is not notified" in caplog.text
