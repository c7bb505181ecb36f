"""Receivers of the settings and of projects, in one place."""

import logging
from functools import partial

import pytest

from ett_service.notifications.formats import FORMATS
from ett_service.notifications.receiver import OF_SETTINGS, Receiver
from ett_service.notifications.routing import Directory
from ett_service.storage.engine.seal import CannotUnseal, Keyring
from ett_service.storage.engine.store import Store
from ett_service.storage.receivers import receivers
from ett_service.storage.receivers.receivers import NewReceiver
from tests.builders import NOON
from tests.engines import ON_ONE_ENGINE

KEYRING, OTHER = Keyring("k" * 32), Keyring("o" * 32)
NAMED = Receiver(OF_SETTINGS, "fleet", "https://alerts.example/fleet", FORMATS["generic"])

pytestmark = ON_ONE_ENGINE


def _add(store: Store, project_id: int, name: str, keyring: Keyring) -> None:
    new = NewReceiver(name, f"https://{name}.example/x", "slack", "", {"model": "m"})
    add = partial(receivers.add, project_id=project_id, new=new, keyring=keyring)
    store.write(lambda conn: add(conn, made_by="ett_4Zk0Xw7b", now_us=NOON))


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


def test_one_that_cannot_be_read_keeps_no_other_from_being_told(
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
