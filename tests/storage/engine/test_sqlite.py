"""What only SQLite needs: one writer, groups, and a disk that it can fill."""

import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection

from ett_service.storage.engine.errors import StorageUnavailable, StoreInUse, WrongStore
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_for_reading, open_store
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON


@pytest.fixture
def dialect() -> str:
    return "sqlite"


@pytest.fixture
def outside(store: Store) -> Iterator[sqlite3.Connection]:
    """Look at the file from outside, as SQLite's own shell would."""
    conn = sqlite3.connect(store.url.removeprefix("sqlite:///"))
    yield conn
    conn.close()


@pytest.fixture
def own_store(database_url: str) -> Iterator[Store]:
    """Return a store of this test alone, which it may fill."""
    with closing(open_store(database_url)) as store:
        yield store


def pragma(conn: Connection, name: str) -> object:
    return conn.exec_driver_sql(f"PRAGMA {name}").scalar_one()


def test_a_commit_is_on_the_disk_and_a_writer_is_one_from_its_begin(store: Store) -> None:
    durable = ("journal_mode", "synchronous", "foreign_keys", "trusted_schema", "query_only")

    assert store.write(lambda conn: [pragma(conn, name) for name in durable]) == [
        "wal",
        2,
        1,
        0,
        0,
    ]


def test_readers_neither_write_nor_checkpoint(store: Store) -> None:
    with store.reading() as conn:
        assert pragma(conn, "query_only") == 1
        assert pragma(conn, "wal_autocheckpoint") == 0


def test_a_writer_takes_the_lock_before_it_reads(store: Store, outside: sqlite3.Connection) -> None:
    outside.execute("PRAGMA busy_timeout = 0")

    def look(_conn: Connection) -> str:
        with pytest.raises(sqlite3.OperationalError) as locked:
            outside.execute("BEGIN IMMEDIATE")
        return str(locked.value)

    assert store.write(look) == "database is locked"


def test_no_driver_begins_transactions_by_itself(store: Store) -> None:
    def in_transaction(conn: Connection) -> bool:
        driver = conn.connection.driver_connection
        assert driver is not None
        return bool(driver.in_transaction)

    with store.reading() as conn:
        assert not in_transaction(conn)
        conn.exec_driver_sql("SELECT 1")
        assert in_transaction(conn)


def test_a_second_writer_is_refused_in_this_process_and_in_another(store: Store) -> None:
    with pytest.raises(StoreInUse) as refused:
        open_store(store.url)
    assert "PostgreSQL" in refused.value.hint
    with pytest.raises(StoreInUse):
        migrate(store.url)

    program = f"from ett_service.storage.engine.store import open_store; open_store({store.url!r})"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert b"StoreInUse" in other.stderr


def test_the_next_writer_may_come_once_the_first_is_gone(database_url: str) -> None:
    for _ in range(2):
        open_store(database_url).close()


def test_the_lock_goes_with_a_process_that_is_killed(database_url: str) -> None:
    program = (
        "import os, signal; from ett_service.storage.engine.store import open_store;"
        f"open_store({database_url!r}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -9

    open_store(database_url).close()


def test_what_gathers_while_one_commits_is_committed_together(store: Store) -> None:
    entered, gate = threading.Event(), threading.Event()
    commits: list[object] = []

    def wait(_conn: Connection) -> None:
        entered.set()
        gate.wait(60)

    first = store.submit(wait)
    entered.wait(60)

    def version(conn: Connection) -> None:
        create_project(conn, f"p{len(commits)}", NOON)
        commits.append(conn.get_transaction())

    rest = [store.submit(version) for _ in range(10)]
    gate.set()
    for each in (first, *rest):
        each.result(timeout=120)

    assert len(commits) == 10
    assert len({id(each) for each in commits}) == 1


def test_a_caller_that_goes_away_stops_nobody_else(store: Store) -> None:
    began, go_on = threading.Event(), threading.Event()

    def hold(_conn: Connection) -> None:
        began.set()
        go_on.wait(60)

    first = store.submit(hold)
    assert began.wait(60)
    left = store.submit(lambda conn: create_project(conn, "left", NOON))
    left.cancel()
    stayed = store.submit(lambda conn: create_project(conn, "stayed", NOON))
    go_on.set()

    first.result(10)
    stayed.result(10)
    store.submit(lambda conn: create_project(conn, "later", NOON)).result(10)


def test_who_is_to_end_while_committing_for_others_takes_none_along(store: Store) -> None:
    entered, gate = threading.Event(), threading.Event()

    def wait(_conn: Connection) -> None:
        entered.set()
        gate.wait(60)

    def end(_conn: Connection) -> None:
        raise SystemExit

    store.submit(wait)
    entered.wait(60)
    other = store.submit(lambda conn: create_project(conn, "p", NOON))
    own = store.submit(end)
    gate.set()

    with pytest.raises(StorageUnavailable, match="ends"):
        other.result(timeout=120)
    with pytest.raises(StorageUnavailable, match="ends"):
        own.result(timeout=120)
    store.submit(lambda conn: create_project(conn, "later", NOON)).result(10)
    with pytest.raises(SystemExit):
        store.write(end)


def test_a_full_disk_fails_the_writes_and_keeps_what_stands(own_store: Store) -> None:
    store = own_store
    store.write(lambda conn: create_project(conn, "kept", NOON))
    pages = store.write(lambda conn: pragma(conn, "page_count"))
    store.write(lambda conn: conn.exec_driver_sql(f"PRAGMA max_page_count = {pages}").all())
    entered, gate = threading.Event(), threading.Event()

    def wait(conn: Connection) -> int:
        entered.set()
        gate.wait(60)
        return create_project(conn, "small", NOON)

    def fill(conn: Connection) -> None:
        conn.exec_driver_sql("INSERT INTO store VALUES (hex(randomblob(8)), hex(zeroblob(99999)))")

    first = store.submit(wait)
    entered.wait(60)
    rest = [store.submit(fill) for _ in range(3)]
    gate.set()

    assert first.result(timeout=120) > 0
    for each in rest:
        assert isinstance(each.exception(timeout=120), StorageUnavailable)
    store.write(lambda conn: conn.exec_driver_sql("PRAGMA max_page_count = 100000").all())
    assert store.write(lambda conn: create_project(conn, "after", NOON)) > 0
    beside = open_for_reading(store.url)
    with beside.reading() as conn:
        assert conn.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
    beside.close()


def test_a_file_that_is_no_database_is_said_to_be_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "noise.db"
    path.write_bytes(b"noise" * 1000)

    for _ in range(2):  # the second finds no lock left behind by the first
        with pytest.raises(StorageUnavailable, match="not a database"):
            open_store(f"sqlite:///{path}")


def test_a_missing_file_is_not_made_by_opening_it(tmp_path: Path) -> None:
    with pytest.raises(WrongStore):
        open_store(f"sqlite:///{tmp_path / 'none.db'}")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(
    own_store: Store, *, replaced: bool
) -> None:
    file = Path(own_store.url.removeprefix("sqlite:///"))
    create = partial(create_project, name="first", now_us=NOON)
    own_store.write(create)
    if replaced:
        shutil.copy(file, file.with_suffix(".copy"))
    file.unlink()
    if replaced:
        file.with_suffix(".copy").rename(file)

    with pytest.raises(StorageUnavailable, match="deleted or replaced"):
        own_store.write(partial(create_project, name="second", now_us=NOON))
    with pytest.raises(StorageUnavailable, match="deleted or replaced"), own_store.reading():
        pass


def test_a_file_that_goes_during_a_write_is_not_acknowledged(own_store: Store) -> None:
    file = Path(own_store.url.removeprefix("sqlite:///"))

    def work(conn: Connection) -> int:
        file.unlink()
        return create_project(conn, "late", NOON)

    with pytest.raises(StorageUnavailable, match="deleted or replaced"):
        own_store.write(work)


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    migrate(url)
    with closing(open_store(url)) as store:
        store.write(partial(create_project, name="first", now_us=NOON))
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_there_is_room_while_the_least_is_free(database_url: str) -> None:
    with closing(open_store(database_url, least_free=1)) as store:
        store.require_room()
    with closing(open_store(database_url, least_free=1 << 62)) as store:
        with pytest.raises(StorageUnavailable, match="MiB free"):
            store.require_room()
        store.write(partial(create_project, name="corrected", now_us=NOON))


def test_a_full_disk_does_not_keep_a_service_from_starting_again() -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from ett_service.storage.engine.migrate import migrate
        from ett_service.storage.engine.store import open_store
        folder = Path(sys.argv[1])
        url = f"sqlite:///{folder / 'ett.db'}"
        migrate(url)
        open_store(url).close()
        try:
            with (folder / "fill").open("wb", buffering=0) as fill:
                while True:
                    fill.write(bytes(4096))
        except OSError:
            pass
        with open_store(url).reading() as conn:
            print(conn.exec_driver_sql("SELECT count(*) FROM project").scalar_one())
    """
    mounted = 'd=$(mktemp -d) && mount -t tmpfs -o size=6m tmpfs "$d" && exec "$0" -c "$1" "$d"'
    alone = ["unshare", "--mount", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("a file system of its own cannot be mounted here")
    done = subprocess.run(
        [*alone, "sh", "-c", mounted, sys.executable, code],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stdout == "0\n", done.stderr
