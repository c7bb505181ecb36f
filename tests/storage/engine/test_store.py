"""Both stores keep the same promises."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, insert, select, text
from sqlalchemy.exc import DBAPIError

from ett_service.storage.engine.errors import StorageUnavailable, WrongStore
from ett_service.storage.engine.store import Store, open_for_reading, open_store
from ett_service.storage.schema import project
from tests.builders.clock import NOON


def add_project(conn: Connection, name: str) -> str:
    conn.execute(insert(project), {"name": name, "created_us": NOON})
    return name


def adding(name: str) -> Callable[[Connection], str]:
    return lambda conn: add_project(conn, name)


def count(store: Store) -> int:
    with store.reading() as conn:
        return conn.execute(select(func.count()).select_from(project)).scalar_one()


def test_what_a_work_returns_is_given_back_and_what_it_wrote_is_read(store: Store) -> None:
    assert store.write(lambda conn: add_project(conn, "one")) == "one"
    assert store.submit(lambda conn: add_project(conn, "two")).result(timeout=120) == "two"

    assert count(store) == 2


def test_a_work_that_fails_leaves_nothing_and_its_caller_gets_the_error(store: Store) -> None:
    def fail(conn: Connection) -> None:
        add_project(conn, "half")
        raise LookupError("no")

    with pytest.raises(LookupError):
        store.write(fail)
    with pytest.raises(LookupError):
        store.submit(fail).result(timeout=120)

    assert count(store) == 0


def test_the_failed_work_of_one_caller_does_not_fail_the_others(store: Store) -> None:
    entered, gate = threading.Event(), threading.Event()

    def wait(conn: Connection) -> str:
        entered.set()
        gate.wait(60)
        return add_project(conn, "first")

    def fail(conn: Connection) -> str:
        add_project(conn, "failed")
        raise LookupError

    first = store.submit(wait)
    entered.wait(60)
    rest = [store.submit(fail if number % 3 == 0 else adding(f"p{number}")) for number in range(12)]
    gate.set()

    assert first.result(timeout=120) == "first"
    failed = [isinstance(each.exception(timeout=120), LookupError) for each in rest]
    assert failed == [number % 3 == 0 for number in range(12)]
    assert count(store) == 9


def test_many_threads_write_at_once_and_every_write_stands(store: Store) -> None:
    def write(thread: int) -> None:
        for number in range(10):
            store.write(adding(f"{thread}-{number}"))

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert count(store) == 80


def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises((DBAPIError, StorageUnavailable)), store.reading() as conn:
        add_project(conn, "sneaked in")

    assert count(store) == 0


def test_a_reader_sees_one_state_throughout(store: Store) -> None:
    with store.reading() as conn:
        before = conn.execute(select(func.count()).select_from(project)).scalar_one()
        store.write(lambda conn: add_project(conn, "later"))
        after = conn.execute(select(func.count()).select_from(project)).scalar_one()

    assert (before, after) == (0, 0)
    assert count(store) == 1


def test_a_faulty_statement_is_not_taken_for_the_database_being_away(store: Store) -> None:
    with pytest.raises(DBAPIError):
        store.write(lambda conn: conn.exec_driver_sql("SELECT * FROM nowhere"))


def test_closing_finishes_what_was_submitted(database_url: str) -> None:
    store = open_store(database_url)
    submitted = [store.submit(adding(f"p{number}")) for number in range(20)]
    store.close()

    assert [each.result(timeout=0) for each in submitted] == [f"p{n}" for n in range(20)]


def test_a_closed_store_takes_nothing_more(database_url: str) -> None:
    store = open_store(database_url)
    store.close()

    for taking in (store.write, store.submit):
        with pytest.raises(StorageUnavailable):
            taking(adding("late"))


def test_a_store_without_the_current_schema_is_refused_with_what_to_do(
    bare_database_url: str, dialect: str, tmp_path: Path
) -> None:
    if dialect == "sqlite":
        (tmp_path / "bare.db").touch()

    for opening in (open_store, open_for_reading):
        with pytest.raises(WrongStore) as refused:
            opening(bare_database_url)
        assert "ett migrate" in refused.value.hint


def test_reading_beside_the_writing_process_sees_what_it_commits(store: Store) -> None:
    beside = open_for_reading(store.url)
    store.write(lambda conn: add_project(conn, "seen"))
    with beside.reading() as conn:
        names = conn.execute(select(project.c.name)).scalars().all()
    beside.close()

    assert names == ["seen"]


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://localhost/ett", "sqlite://", "sqlite:///:memory:"]
)
def test_an_address_that_does_not_serve_is_refused_with_ones_that_do(url: str) -> None:
    with pytest.raises(WrongStore) as refused:
        open_store(url)

    assert "sqlite:///ett.db" in refused.value.hint


def test_an_error_of_the_database_does_not_repeat_what_was_sent(store: Store) -> None:
    statement = text("SELECT * FROM nothing WHERE x = :x")
    with pytest.raises((DBAPIError, StorageUnavailable)) as failed, store.reading() as conn:
        conn.execute(statement, {"x": "a secret"})

    assert "a secret" not in f"{failed.value} {failed.value.__cause__}"
