"""A made-up fleet on PostgreSQL, read in SQL as by Grafana, and over the API."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.rows import TupleRow
from sqlalchemy import Connection, make_url, select
from starlette.testclient import TestClient

from dashboards.build.macros import ALL, Chosen, written_out
from dashboards.build.sql.compare import DIMENSIONS, SETS
from ett_service.api.app import create_app
from ett_service.core.events import MarkerKind
from ett_service.core.intervals import DAY_US, rfc3339
from ett_service.core.regressions.finding import (
    Attribution,
    Finding,
    Impact,
    Metric,
    RunFinding,
    Series,
    Severity,
    Side,
    Subject,
    Suspect,
    Verdict,
)
from ett_service.core.regressions.state import StateRules
from ett_service.demo.generator import Fleet, generate
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.record.keys import SCOPES, create_key
from ett_service.storage.regressions import findings
from ett_service.storage.schema import project
from ett_service.storage.schema.views import READER
from ett_service.worker.ledgers import Worker
from tests.builders.databases.engines import new_postgresql
from tests.builders.servers.application import state_of

END_US = round(datetime(2026, 11, 19, 15, tzinfo=UTC).timestamp()) * 1_000_000
DAYS = 4
FROM_US = END_US - 84 * 3_600_000_000 + 1_200_000_000
PROJECT = "default"
MOST_EVENTS = 5_000
_IDENTITY = ("job", "launch", "attempt", "cycle", "at")

LONGEST_STORY = """
    SELECT job FROM ett_v_attempts JOIN ett_v_stages USING (project, job, number)
    GROUP BY job ORDER BY COUNT(DISTINCT number) DESC, job LIMIT 1
"""


@dataclass(frozen=True)
class Answer:
    """The result of a query."""

    columns: Sequence[str]
    rows: Sequence[TupleRow]

    def column(self, name: str) -> list[Any]:
        """Return one column."""
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class LoadedFleet:
    """The fleet, and two ways to read it."""

    conn: psycopg.Connection
    client: TestClient
    worker: Worker
    job: str  #: one of many attempts

    def choices(self, uid: str) -> dict[str, Chosen]:
        """Return the default variables of a dashboard, and a job."""
        of_sets = {f"{name}_{dimension}": ALL for name in SETS for dimension in DIMENSIONS}
        every = dict.fromkeys(("project", "team", "model", "cluster", "hardware"), ALL)
        chosen = every | of_sets | {"by": "team", "reach": "14", "kind": [*MarkerKind]}
        return chosen | ({"project": PROJECT, "job": self.job} if uid == "ett-sql-job" else {})

    def sql(
        self,
        query: str,
        chosen: Mapping[str, Chosen],
        from_us: int = FROM_US,
        to_us: int = END_US,
        *,
        explain: bool = False,
    ) -> Answer:
        """Run a query in PostgreSQL as the reader."""
        text = written_out(query, chosen, from_us, to_us)
        with self.conn.transaction(force_rollback=True):
            self.conn.execute(f"SET LOCAL ROLE {READER}")
            if explain:
                self.conn.execute("SET LOCAL enable_seqscan = off")
            cursor = self.conn.execute(f"{'EXPLAIN ' if explain else ''}{text}".encode())
            names = [column.name for column in cursor.description or ()]
            return Answer(names, cursor.fetchall())

    def settle(self) -> None:
        """Let the worker do what there is to do; what waited too long for a lock comes again."""
        busy = True
        while busy:
            with suppress(StorageUnavailable):
                busy = self.worker.run_once() > 0

    def fleet_api(self, question: str, **query: Any) -> Any:
        """Read an answer about the fleet from the API, for the same range."""
        span = {"from": rfc3339(FROM_US), "to": rfc3339(END_US)}
        return self.api(f"/v1/fleet/{question}", **span, **query)

    def api(self, path: str, **query: Any) -> Any:
        """Read an answer of the API."""
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def load_fleet(server: str) -> Iterator[LoadedFleet]:
    """Load a fleet into a new database of *server*, as anybody would: over the API."""
    with new_postgresql(server) as url:
        migrate(url)
        store = open_store(url)
        try:
            with _connected(url) as conn, _served(store) as (client, worker):
                loaded = LoadedFleet(conn, client, worker, "")
                _load(client, generate(seed=7, days=DAYS, end_us=END_US))
                loaded.settle()
                store.write(_find_regression)
                conn.execute("ANALYZE")
                (job,) = conn.execute(LONGEST_STORY).fetchone() or ("",)
                yield replace(loaded, job=job)
        finally:
            store.close()


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    plain = make_url(url).set(drivername="postgresql")
    with psycopg.connect(plain.render_as_string(hide_password=False), autocommit=True) as conn:
        yield conn


@contextmanager
def _served(store: Store) -> Iterator[tuple[TestClient, Worker]]:
    state = state_of(store, lambda: END_US)
    worker = state.worker
    assert isinstance(worker, Worker)
    with TestClient(create_app(lambda: nullcontext(state))) as client:
        key = store.write(
            lambda conn: create_key(
                conn, project=PROJECT, name="test", scopes=SCOPES, now_us=END_US
            )
        )
        client.headers["Authorization"] = f"Bearer {key}"
        yield client, worker


def _load(client: TestClient, fleet: Fleet) -> None:
    events = [event for story in fleet.stories for event in story.events]
    events += [_waiting(event) for event in events if event["type"] == "attempt_ended"]
    for begin in range(0, len(events), MOST_EVENTS):
        batch = {"history": True, "events": events[begin : begin + MOST_EVENTS]}
        answer = client.post("/v1/events", json=batch)
        assert answer.json()["rejected"] == 0, answer.text
    for marker in fleet.markers:
        assert client.post("/v1/markers", json=marker).status_code < 300


def _waiting(ending: Mapping[str, Any]) -> dict[str, Any]:
    """Have an attempt report at its end that its loop waited for data for a minute."""
    identity = {name: ending[name] for name in _IDENTITY if name in ending}
    return {"type": "heartbeat", **identity, "attributes": {"data_wait_seconds": 60.0}}


def _find_regression(conn: Connection) -> None:
    """Store the same finding of two runs of a search."""
    before = Side(140, 28, 486e6, 702e6, FROM_US - 28 * DAY_US, FROM_US)
    after = Side(68, 6, 804e6, 1010e6, FROM_US, END_US)
    finding = Finding(
        Series(Subject(Metric.PHASE_SECONDS, "pt2_compile"), (("cluster", "alder"),)),
        Verdict.REGRESSION,
        *(1.65, 1.48, 1.84, 1e-9, 1e-7, FROM_US + DAY_US),
        *(before, after, ()),
        impact=Impact(212.0, -0.6),
    )
    cause = Attribution({}, {}, suspects=(Suspect("image", "trainer:2.14", 0.97, 68),))
    (project_id,) = conn.execute(select(project.c.id).where(project.c.name == PROJECT)).one()
    for at_us in (END_US - DAY_US, END_US):
        run_finding = RunFinding(finding, Severity.HIGH, cause)
        findings.record(conn, project_id, at_us, [run_finding], StateRules())
