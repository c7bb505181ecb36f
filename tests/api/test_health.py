"""Alive is not ready: each part is named."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from sqlalchemy import Connection
from starlette.testclient import TestClient

from ett_service.api.app import create_app
from ett_service.api.state import AppState
from ett_service.core.intervals import rfc3339
from ett_service.ingest.wire import Limits
from ett_service.storage.engine.errors import Migrating, StorageUnavailable
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.keys import SCOPES, create_key
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import wire_event
from tests.builders.servers.application import Service


class Idle:
    """A worker that was started elsewhere, or whose thread has died."""

    alive = folds = True

    def wake(self) -> None:
        """Do nothing."""


class OutOfReach:
    """A store whose database can go away."""

    def __init__(self, store: Store, error: StorageUnavailable | None = None) -> None:
        self._error = error or StorageUnavailable("no route to secret-host")
        self.dialect, self.url, self.reachable = store.dialect, store.url, True
        self.write, self.submit, self.close = store.write, store.submit, store.close
        self.require_room = store.require_room
        self._store = store

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read, as long as the database is there."""
        if not self.reachable:
            raise self._error
        with self._store.reading() as conn:
            yield conn


def _served(store: Store, worker: Idle | None) -> TestClient:
    state = AppState(store=store, now_us=lambda: 0, limits=Limits(), worker=worker)
    return TestClient(create_app(lambda: nullcontext(state)))


def test_a_service_whose_worker_runs_is_ready(store: Store) -> None:
    with _served(store, Idle()) as client:
        answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "parts": {"store": "ok", "schema": "ok", "worker": "ok", "disk": "ok"},
        "waiting_jobs": 0,
        "waiting_since": None,
    }


def test_a_service_whose_worker_died_is_not_ready_and_alive(service: Service) -> None:
    parts = service.get("/readyz", 503)["parts"]
    assert parts == {"store": "ok", "schema": "ok", "worker": "failed", "disk": "ok"}
    assert service.get("/healthz") == {"status": "ok"}


def test_a_service_all_of_whose_folds_fail_takes_events_and_says_so(store: Store) -> None:
    worker = Idle()
    worker.folds = False
    with _served(store, worker) as client:
        answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["parts"]["worker"]) == (200, "stalled")


def test_jobs_that_wait_for_their_numbers_are_counted(service: Service) -> None:
    service.send([wire_event("heartbeat", 0, "a"), wire_event("heartbeat", 0, "b")])
    waiting = service.get("/readyz", 503)
    assert waiting["waiting_jobs"] == 2
    assert waiting["waiting_since"] == rfc3339(service.clock.now_us)


def test_a_worker_elsewhere_is_no_reason_not_to_be_ready(store: Store) -> None:
    with _served(store, None) as client:
        answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["parts"]["worker"]) == (200, "elsewhere")


@ON_ONE_ENGINE
def test_another_schema_is_named(database_url: str) -> None:
    with closing(open_store(database_url)) as store, _served(store, None) as client:
        store.write(lambda conn: conn.exec_driver_sql("DELETE FROM alembic_version").rowcount)
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["parts"] == {
        "store": "ok",
        "schema": "failed",
        "worker": "elsewhere",
        "disk": "ok",
    }


@ON_ONE_ENGINE
def test_a_store_out_of_reach_is_named_with_a_time_to_retry(store: Store) -> None:
    down = OutOfReach(store)
    with _served(down, None) as client:
        down.reachable = False
        ready, jobs = client.get("/readyz"), client.get("/v1/jobs")
    assert ready.status_code == 503
    assert ready.json()["parts"]["store"] == "failed"
    assert (jobs.status_code, jobs.headers["retry-after"]) == (503, "2")
    assert "secret" not in jobs.text


@ON_ONE_ENGINE
def test_a_database_that_is_migrated_is_named_with_a_time_to_retry(store: Store) -> None:
    down = OutOfReach(store, Migrating("The database is being migrated."))
    with _served(down, None) as client:
        down.reachable = False
        answer = client.get("/v1/jobs")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["type"] == "urn:ett-service:problem:migrating"


def test_without_room_it_is_not_ready_and_takes_no_events(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ett.db'}"
    migrate(url)
    with closing(open_store(url, least_free=1 << 62)) as store, _served(store, None) as client:
        key = store.write(
            lambda conn: create_key(conn, project="p", name="n", scopes=SCOPES, now_us=0)
        )
        client.headers["Authorization"] = f"Bearer {key}"
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["parts"]["disk"]) == (503, "failed")
        sent = client.post("/v1/events", json={"events": []})
        assert (sent.status_code, sent.headers["retry-after"]) == (503, "2")
        assert client.get("/v1/jobs").status_code == 200
        assert client.post("/v1/markers", json={}).status_code == 422
