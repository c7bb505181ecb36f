"""A copy of a database in use is consistent, private and whole, and answers by another name."""

import sqlite3
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import func, make_url, select

from ett_service.aggregation.verify import verify, verify_rollups
from ett_service.storage.engine import sqlite
from ett_service.storage.engine.backup import CannotBackUp, back_up, renew_epoch
from ett_service.storage.engine.migrate import address, migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.events import store_epoch
from ett_service.storage.record.keys import create_project
from ett_service.storage.schema import event
from tests.builders.clock import NOON, RECEIVED_AT
from tests.builders.databases import postgres
from tests.builders.databases.engines import ON_ONE_ENGINE, new_postgresql
from tests.builders.ledgers import LATE_IN_IT, deliver, refreshed, running_job
from tests.builders.record import progress
from tests.builders.servers.waiting import wait_for

_PREPARED = 12


@contextmanager
def written_to(store: Store, key: JobKey) -> Iterator[list[int]]:
    """Write events in a thread of its own; yields the steps that are committed."""
    steps, stop = [], threading.Event()

    def write() -> None:
        step = 0
        while not stop.is_set():
            deliver(store, key, [progress(step, NOON + step)])
            steps.append(step)
            step += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield steps
    finally:
        stop.set()
        thread.join()


def faults(store: Store) -> list[object]:
    """Return what is not as the events say."""
    of_jobs = [each for verdict in verify(store) for each in verdict.differences]
    return [*of_jobs, *(each for day in verify_rollups(store) for each in day.differences)]


def filled(store: Store) -> int:
    project_id = store.write(lambda conn: create_project(conn, "research", RECEIVED_AT))
    for number in range(_PREPARED):
        key = JobKey(project_id, f"job-{number}")
        deliver(store, key, running_job())
        refreshed(store, key, LATE_IN_IT)
    return project_id


@ON_ONE_ENGINE
def test_a_copy_of_a_database_in_use_has_all_that_was_committed_before(
    database_url: str, tmp_path: Path
) -> None:
    path, copy = sqlite.path_of(address(database_url)), tmp_path / "copy.db"
    with closing(open_store(database_url)) as store:
        key = JobKey(filled(store), "busy")
        with written_to(store, key) as steps:
            while len(steps) < 5:
                pass
            before = len(steps)
            n_bytes = back_up(path, copy)
            after = len(steps)
        with store.reading() as conn:
            epoch = store_epoch(conn)

    assert copy.stat().st_size == n_bytes
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".copy")] == []
    with closing(sqlite3.connect(copy)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with closing(open_store(f"sqlite:///{copy}")) as restored:
        with restored.reading() as conn:
            counted = conn.scalar(select(func.count()).where(event.c.job == "busy")) or 0
            assert store_epoch(conn) != epoch
        assert before <= counted <= after + 1
        assert faults(restored) == []


@ON_ONE_ENGINE
def test_what_is_there_is_replaced_only_when_that_is_asked_for(
    database_url: str, tmp_path: Path
) -> None:
    path, copy = sqlite.path_of(address(database_url)), tmp_path / "copy.db"
    copy.write_text("mine")
    with pytest.raises(CannotBackUp, match="exists"):
        back_up(path, copy)
    assert copy.read_text() == "mine"
    back_up(path, copy, replace=True)
    open_store(f"sqlite:///{copy}").close()
    with pytest.raises(CannotBackUp, match="no database"):
        back_up(tmp_path / "nothing.db", tmp_path / "other.db")
    (tmp_path / "broken.db").write_text("no database, but longer than a header of one" * 9)
    with pytest.raises(CannotBackUp, match="cannot be copied"):
        back_up(tmp_path / "broken.db", tmp_path / "other.db")
    assert not (tmp_path / "other.db").exists()


def test_a_renewed_epoch_is_one_that_the_store_never_had(store: Store) -> None:
    epochs = []
    for _ in range(3):
        with store.reading() as conn:
            epochs.append(store_epoch(conn))
        store.write(renew_epoch)
    assert len(set(epochs)) == len(epochs)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_dump_of_postgresql_in_use_restores_what_was_committed_before(
    database_url: str, postgres_url: str, tmp_path: Path
) -> None:
    programs = postgres.binaries()
    if programs is None or not (programs / "pg_dump").exists():
        pytest.skip("pg_dump is not installed beside the server")
    dump = tmp_path / "ett.dump"
    with closing(open_store(database_url)) as store:
        key = JobKey(filled(store), "busy")
        with written_to(store, key) as steps:
            while len(steps) < 5:
                pass
            before = len(steps)
            run(programs / "pg_dump", "--format=custom", f"--file={dump}", libpq(database_url))
            after = len(steps)
        with store.reading() as conn:
            epoch = store_epoch(conn)

    with new_postgresql(postgres_url) as url:
        run(programs / "pg_restore", "--exit-on-error", f"--dbname={libpq(url)}", str(dump))
        with closing(open_store(url)) as restored:
            with restored.reading() as conn:
                counted = conn.scalar(select(func.count()).where(event.c.job == "busy")) or 0
                assert store_epoch(conn) == epoch
            assert before <= counted <= after + 1
            assert faults(restored) == []
            restored.write(renew_epoch)
            with restored.reading() as conn:
                assert store_epoch(conn) != epoch


@pytest.mark.long
def test_postgresql_recovers_to_a_point_in_time_from_its_archive() -> None:
    programs = postgres.binaries()
    if programs is None or not (programs / "pg_basebackup").exists():
        pytest.skip("pg_basebackup is not installed beside the server")
    with tempfile.TemporaryDirectory() as made:
        archive, base = Path(made) / "archive", Path(made) / "base"
        archive.mkdir()
        for folder in (made, archive):
            Path(folder).chmod(0o777)
        keeping = ("archive_mode=on", f"archive_command=cp %p {archive}/%f")
        with postgres.server(programs, *keeping) as server, new_postgresql(server) as url:
            migrate(url)
            name = make_url(url).database
            with closing(open_store(url)) as store:
                key = JobKey(filled(store), "busy")
                run(programs / "pg_basebackup", f"--pgdata={base}", f"--dbname={libpq(server)}")
                deliver(store, key, [progress(step, NOON + step) for step in range(50)])
                at_the_point = "SELECT pg_create_restore_point('before')"
                store.write(lambda conn: conn.exec_driver_sql(at_the_point).all())
                deliver(store, key, [progress(step, NOON + step) for step in range(50, 80)])
                store.write(lambda conn: conn.exec_driver_sql("SELECT pg_switch_wal()").all())
                wait_for(lambda: len(list(archive.glob("0*"))) > 1)

        (base / "recovery.signal").touch()
        recovering = (
            f"restore_command=cp {archive}/%f %p",
            "recovery_target_name=before",
            "recovery_target_action=promote",
        )
        with postgres.server(programs, *recovering, data=base) as server:
            url = make_url(server).set(database=name).render_as_string(hide_password=False)
            store = wait_for(lambda: promoted(url))
            with closing(store), store.reading() as conn:
                counted = conn.scalar(select(func.count()).where(event.c.job == "busy"))
                assert counted == 50
                assert faults(store) == []


def promoted(url: str) -> Store | None:
    """Open the store once it can be written again."""
    store = open_store(url)
    with store.reading() as conn:
        is_recovering = conn.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one()
    if is_recovering:
        store.close()
        return None
    return store


def run(program: Path, *arguments: str) -> None:
    subprocess.run([str(program), *arguments], check=True)


def libpq(url: str) -> str:
    """Return the address as PostgreSQL's own programs take it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
