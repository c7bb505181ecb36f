"""The audit log only grows, and its pages leave nothing out."""

import pytest
from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.exc import DBAPIError

from ett_service.storage.engine.store import Store
from ett_service.storage.record import audit
from ett_service.storage.record.audit import Action, Actor, AdminAct, AuditFilter, Entry, Via
from ett_service.storage.record.keys import create_project
from ett_service.storage.schema import audit_log
from tests.builders.clock import HOUR, NOON

ADA = Actor("ett_adaadaad", "Ada", Via.API, "10.0.0.7")
ROOT = Actor(None, "root", Via.COMMAND, "host-1")


def fill(store: Store, count: int) -> None:
    def work(conn: Connection) -> None:
        project_id = create_project(conn, "research", NOON)
        for number in range(count):
            action = Action.KEY_CREATED if number % 2 else Action.JOB_DELETED
            act = AdminAct(action, f"t{number}", project_id if number % 3 else None)
            audit.record(conn, ADA if number % 5 else ROOT, act, NOON + number // 2)

    store.write(work)


def entries(store: Store, limit: int = 100, **wanted: object) -> list[Entry]:
    with store.reading() as conn:
        return audit.listing(conn, AuditFilter(**wanted), limit=limit)  # type: ignore[arg-type]


def test_pages_are_the_whole_list_the_latest_first(store: Store) -> None:
    fill(store, 11)
    whole = entries(store)
    paged: list[Entry] = []
    with store.reading() as conn:
        while page := audit.listing(
            conn, AuditFilter(), limit=2, after=(paged[-1].at_us, paged[-1].id) if paged else None
        ):
            paged += page

    assert paged == whole
    assert len({entry.id for entry in whole}) == 11
    assert [entry.at_us for entry in whole] == sorted((e.at_us for e in whole), reverse=True)


def test_each_filter_leaves_what_it_names(store: Store) -> None:
    fill(store, 10)
    count = {
        "actions": len(entries(store, actions=[Action.JOB_DELETED])),
        "made_by": len(entries(store, made_by="ett_adaadaad")),
        "project": len(entries(store, project="research")),
        "target": len(entries(store, target="t3")),
        "from": len(entries(store, from_us=NOON + 4)),
        "to": len(entries(store, to_us=NOON + 4)),
        "later": len(entries(store, from_us=NOON + HOUR)),
    }

    assert count == {
        "actions": 5, "made_by": 8, "project": 6, "target": 1, "from": 2, "to": 8, "later": 0
    }  # fmt: skip


def test_an_entry_says_who_did_what_and_from_where(store: Store) -> None:
    store.write(
        lambda conn: audit.record(
            conn, ROOT, AdminAct(Action.RECORD_PRUNED, details={"days": 90}), NOON
        )
    )
    (entry,) = entries(store)

    assert (entry.made_by, entry.made_by_name, entry.made_via) == (None, "root", Via.COMMAND)
    assert (entry.made_from, entry.project, entry.details) == ("host-1", None, {"days": 90})


@pytest.mark.parametrize("change", ["update", "delete"])
def test_the_database_refuses_to_change_the_log(store: Store, change: str) -> None:
    fill(store, 2)
    statement = update(audit_log).values(target="x") if change == "update" else delete(audit_log)
    with pytest.raises(DBAPIError, match="only grows"):
        store.write(lambda conn: conn.execute(statement))
    with store.reading() as conn:
        assert conn.execute(select(func.count()).select_from(audit_log)).scalar_one() == 2


def test_the_settings_of_the_start_before_are_returned(store: Store) -> None:
    def exchange(currency: str) -> object:
        return store.write(lambda conn: audit.exchange_settings(conn, {"currency": currency}))

    assert exchange("USD") is None
    assert exchange("EUR") == {"currency": "USD"}
    assert exchange("EUR") == {"currency": "EUR"}
