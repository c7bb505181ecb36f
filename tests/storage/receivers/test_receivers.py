"""Receivers in the database: what they sign with, and that nobody reads it there."""

import json
from functools import partial

import pytest
from sqlalchemy import Connection, insert, select

from ett_service.storage.engine.seal import CannotUnseal, Keyring
from ett_service.storage.engine.store import Store
from ett_service.storage.receivers import receivers
from ett_service.storage.receivers.receivers import BadReceiver, NewReceiver, StoredReceiver
from ett_service.storage.record.keys import create_project
from ett_service.storage.schema import receiver, receiver_health
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE

KEYRING = Keyring("k" * 32)
URL = "https://hooks.example/CANARYurl"
SECRET = "whsec_CANARYsecret"  # noqa: S105 - made up
DAY_US = 86_400_000_000


def _add(store: Store, project_id: int, name: str = "oncall", **cohort: str) -> None:
    new = NewReceiver(name, URL, "generic", SECRET, cohort)
    store.write(
        partial(
            receivers.add,
            project_id=project_id,
            new=new,
            keyring=KEYRING,
            made_by="ett_4Zk0Xw7b",
            now_us=NOON,
        )
    )


def _got(store: Store, project_id: int, name: str = "oncall") -> StoredReceiver:
    with store.reading() as conn:
        stored = receivers.get(conn, project_id, name)
    assert stored is not None
    return stored


def _rotate(store: Store, project_id: int, now_us: int) -> str:
    stored = _got(store, project_id)
    return store.write(partial(receivers.rotate, stored=stored, keyring=KEYRING, now_us=now_us))


def test_a_receiver_is_kept_with_what_it_asked_for(store: Store, project_id: int) -> None:
    _add(store, project_id, model="llm-70b")
    stored = _got(store, project_id)
    assert (stored.name, stored.project, stored.format) == ("oncall", "research", "generic")
    assert stored.cohort == {"model": "llm-70b"}
    assert stored.secrets(KEYRING, NOON) == (SECRET,)
    assert KEYRING.unseal(stored.sealed_url) == URL


def test_neither_address_nor_secret_can_be_read_in_the_database_or_a_repr(
    store: Store, project_id: int
) -> None:
    _add(store, project_id)
    _rotate(store, project_id, NOON)
    with store.reading() as conn:
        rows = json.dumps([list(row) for row in conn.execute(select(receiver))])
    texts = rows + repr(_got(store, project_id)) + repr(NewReceiver("a", URL, "generic", SECRET))
    assert "CANARY" not in texts


def test_after_a_rotation_both_secrets_sign_for_a_day(store: Store, project_id: int) -> None:
    _add(store, project_id)
    fresh = _rotate(store, project_id, NOON)
    stored = _got(store, project_id)
    assert fresh.startswith("whsec_")
    assert stored.secrets(KEYRING, NOON + DAY_US - 1) == (fresh, SECRET)
    assert stored.secrets(KEYRING, NOON + DAY_US) == (fresh,)


def test_a_second_rotation_ends_the_first_secret(store: Store, project_id: int) -> None:
    _add(store, project_id)
    first = _rotate(store, project_id, NOON)
    second = _rotate(store, project_id, NOON + 1)
    assert _got(store, project_id).secrets(KEYRING, NOON + 2) == (second, first)


def test_a_removed_receiver_is_gone(store: Store, project_id: int) -> None:
    _add(store, project_id)
    assert store.write(lambda conn: receivers.remove(conn, project_id, "oncall"))
    assert not store.write(lambda conn: receivers.remove(conn, project_id, "oncall"))
    with store.reading() as conn:
        assert receivers.listing(conn) == []


@ON_ONE_ENGINE
@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "a" * 64, "a\n", "é"])
def test_a_name_that_no_address_could_hold_is_refused(
    store: Store, project_id: int, name: str
) -> None:
    with pytest.raises(BadReceiver, match="name"):
        _add(store, project_id, name)


def test_a_name_stands_once_in_a_project_and_again_in_another(
    store: Store, project_id: int
) -> None:
    _add(store, project_id)
    with pytest.raises(BadReceiver, match="exists already"):
        _add(store, project_id)
    other = store.write(lambda conn: create_project(conn, "other", NOON))
    _add(store, other)
    with store.reading() as conn:
        assert [receiver.project_id for receiver in receivers.listing(conn)] == [project_id, other]
        assert [receiver.project_id for receiver in receivers.listing(conn, other)] == [other]


def test_a_former_key_reads_until_all_is_sealed_with_the_new_one(
    store: Store, project_id: int
) -> None:
    _add(store, project_id)
    former = _rotate(store, project_id, NOON - DAY_US)
    _rotate(store, project_id, NOON)
    both, new = Keyring(f"{'n' * 32},{'k' * 32}"), Keyring("n" * 32)
    with pytest.raises(CannotUnseal):
        _got(store, project_id).secrets(new, NOON)

    assert store.write(partial(receivers.reseal, keyring=both)) == (1, ())
    stored = _got(store, project_id)
    assert new.unseal(stored.sealed_url) == URL
    assert former in stored.secrets(new, NOON)
    assert store.write(partial(receivers.reseal, keyring=new)) == (0, ())


def test_what_no_key_reads_is_named_and_left_as_it_is(store: Store, project_id: int) -> None:
    _add(store, project_id)
    other = Keyring("n" * 32)
    assert store.write(partial(receivers.reseal, keyring=other)) == (0, ("oncall",))
    assert _got(store, project_id).secrets(KEYRING, NOON) == (SECRET,)


def test_a_receiver_is_unwell_while_it_is_paused_or_disabled(store: Store, project_id: int) -> None:
    rows = [
        {"owner": 0, "name": "fine", "failures": 1},
        {"owner": 0, "name": "paused", "failures": 6, "open_until_us": NOON + 1},
        {"owner": project_id, "name": "gone", "failures": 0, "disabled_why": "It answered 410."},
    ]
    for row in rows:
        store.write(partial(_insert, row=row))
    with store.reading() as conn:
        assert [name for name, _ in receivers.unwell(conn, NOON)] == ["gone", "paused"]
        assert [name for name, _ in receivers.unwell(conn, NOON + 1)] == ["gone"]


def _insert(conn: Connection, row: dict[str, object]) -> None:
    conn.execute(insert(receiver_health), row)
