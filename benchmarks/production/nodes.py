"""Batches and folds a second on one node of Citus and on several, where the nodes decide.

A wire before each node sends on one request at a time and takes some milliseconds for it, so a
node does no more a second than that, and no processor decides: all servers may share one machine.
A wire before the coordinator holds each as long, but many at once. One node and all of
them have databases of their own on the same servers, and take turns. Each node comes with a server
process and a worker, which keep it busy.
"""

import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sqlalchemy import URL, make_url
from typing_extensions import override

from benchmarks.fold import START
from benchmarks.freshness import Server, address, new_key, process
from benchmarks.production.sustained import Load
from benchmarks.scale import Fleet, Wire, until, working
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.record.keys import create_project
from tests.builders.databases.engines import new_postgresql

GOAL = 0.8
"""Of a rate that grows as the nodes do."""

DELAY_MS = 10.0
CONNECTIONS = 16  #: a node, to a server process of its own
EVENTS = 100  #: of each batch, which is a job's
_WARM_S, _WARM_JOBS = 10.0, 100  #: while sessions of the coordinator connect with every node
_BEGUN, _MOST = 0.2, 0.8  #: folds are timed between these shares: while all nodes have some


class BusyWire(Wire):
    """A proxy that sends on one request at a time, as a node without a free processor would."""

    def __init__(self, server: tuple[str, int]) -> None:
        super().__init__(server, 0.0)
        self._free_at = 0.0

    @override
    def due(self, now: float, request_due: float | None) -> float:
        if request_due is not None:
            return max(now, request_due)
        self._free_at = max(now, self._free_at) + self.delay_s
        return self._free_at


@dataclass(frozen=True, slots=True)
class Nodes:
    """A fleet on Citus, and the wires to its nodes."""

    fleet: Fleet
    wires: Sequence[BusyWire]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let requests to the nodes take their time in the block."""
        self._hold(DELAY_MS / 1000)
        try:
            yield
        finally:
            self._hold(0.0)

    def _hold(self, delay_s: float) -> None:
        for wire in self.wires:
            wire.delay_s = delay_s


@dataclass(frozen=True, slots=True)
class Growth:
    """Rates on one node and on all, medians, and the median of the share of a linear growth."""

    one: float
    all: float
    linear: float


@contextmanager
def clusters(coordinator: str, nodes: Sequence[str]) -> Iterator[tuple[Nodes, Nodes]]:
    """Make databases of Citus on one node, and on all of them."""
    with _cluster(coordinator, nodes[:1]) as one, _cluster(coordinator, nodes) as every:
        yield one, every


@contextmanager
def _cluster(coordinator: str, nodes: Sequence[str]) -> Iterator[Nodes]:
    name = f"ett_nodes_{uuid.uuid4().hex[:12]}"
    with ExitStack() as stack:
        for server in (coordinator, *nodes):
            url = stack.enter_context(new_postgresql(server, name))
            _execute(url, ["CREATE EXTENSION citus"])
        of_coordinator = make_url(coordinator).set(database=name)
        url = of_coordinator.render_as_string(hide_password=False)
        wires = [stack.enter_context(closing(BusyWire(_place(make_url(each))))) for each in nodes]
        host, port = _place(of_coordinator)
        added = [f"SELECT citus_add_node('127.0.0.1', {wire.port})" for wire in wires]
        _execute(url, [f"SELECT citus_set_coordinator_host('{host}', {port})", *added])
        migrate(url, citus=True)
        wire = stack.enter_context(closing(Wire((host, port), DELAY_MS / 1000)))
        store = stack.enter_context(closing(open_store(url)))
        project_id = store.write(lambda conn: create_project(conn, "fleet", START))
        yield Nodes(Fleet(store, wire, project_id), wires)


def _place(url: URL) -> tuple[str, int]:
    return url.host or "127.0.0.1", url.port or 5432


def _execute(url: str, statements: Sequence[str]) -> None:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


@contextmanager
def _server(url: str, processes: int) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as name:
        folder, variables = Path(name), {"ETT_DATABASE_URL": url, "ETT_EMBEDDED_WORKER": "false"}
        arguments = ("serve", "--port", "0", "--workers", str(processes))
        with process(*arguments, folder=folder, **variables):
            yield Server(address(folder / "serve.log"), new_key(folder, variables))


def ingested(nodes: Nodes, seconds: float) -> float:
    """Send batches for so long, and return how many events a second were acknowledged."""
    n_nodes = len(nodes.wires)
    with _server(nodes.fleet.url, n_nodes) as server:
        load = Load(server, CONNECTIONS * n_nodes, EVENTS)
        load.send(_WARM_S)
        with nodes.held():
            return load.send(seconds)


def folded(nodes: Nodes, n_jobs: int) -> float:
    """Let workers fold so many new jobs a node; return how many a second they fold and merge.

    No other jobs may wait to be folded.
    """
    fleet, name, n_nodes = nodes.fleet, uuid.uuid4().hex, len(nodes.wires)
    n_warm, n_jobs = _WARM_JOBS * n_nodes, n_jobs * n_nodes
    jobs = [f"{name} {number}" for number in range(n_warm + n_jobs)]
    fleet.send(jobs, 1)
    before = fleet.n_merged() + n_warm

    def reached(share: float) -> bool:
        return fleet.n_merged() - before >= share * n_jobs

    with working(fleet.url, n_nodes, 0):
        until(lambda: fleet.is_shared(n_nodes), "the workers share the slots")
        fleet.mark(jobs[:n_warm])
        until(lambda: reached(0.0), "the workers are connected with every node")
        with nodes.held():
            fleet.mark(jobs[n_warm:])
            until(lambda: reached(_BEGUN), "folds are under way")
            first, began = fleet.n_merged(), time.perf_counter()
            until(lambda: reached(_MOST), "most is folded")
            rate = (fleet.n_merged() - first) / (time.perf_counter() - began)
        until(lambda: reached(1.0), "all is folded and merged")
    fleet.check(jobs)
    return rate


def growth(rates: Sequence[tuple[float, float]], n_nodes: int) -> Growth:
    """Compare the rates of each round, on one node and on all."""
    ones, alls = zip(*rates, strict=True)
    shares = [every / one / n_nodes for one, every in rates]
    return Growth(*map(statistics.median, (ones, alls, shares)))
