"""How fast events are taken over HTTP, beside the fastest that the bare database takes them.

A real server takes prepared batches of 1,000 from several connections, each of a job of its own,
and answers after the commit. Beside it, in turns, one connection writes the same rows to a table:
SQLite by ``executemany`` with a write-ahead log and full syncs, PostgreSQL by COPY into a staging
table and an insert from there. Then many connections send one event a request, beside what one sync
an event would allow, and beside what the same web server answers to them where its application does
nothing: no service in Python can be faster than that. Server, database and load share the machine.

For PostgreSQL it prints how much an event takes there, with its indexes, and how fast a store is
that holds many more: ``--rows 10000000``, which takes a quarter of an hour.
"""

import argparse
import json
import os
import selectors
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from sqlalchemy import make_url

from benchmarks.drain import CONNECTIONS, PLAIN, bodies_of, load
from benchmarks.freshness import Server, databases, serving
from ett_service.ingest.decode import decode
from ett_service.ingest.wire import Limits

GOALS = {"sqlite": 0.22, "sqlite, worker on": 0.12, "postgresql+psycopg": 0.5}
GOAL_SINGLE = 20.0
GOAL_BYTES = 200
GOAL_FULL = 0.8
SINGLE_CONNECTIONS = 64
EVENT_BYTES = 272
_PAGE = b"\0" * 4096
_SYNCS = 200

_TABLE = """CREATE TABLE bare_event (
    project_id integer NOT NULL, job text NOT NULL, id text NOT NULL, type text NOT NULL,
    at_us bigint NOT NULL, received_us bigint NOT NULL, batch bigint NOT NULL, body text NOT NULL,
    PRIMARY KEY (project_id, job, id))"""

_SIZE = "SELECT pg_total_relation_size('event')::float / count(*) FROM event"

#: Events of other jobs, a thousand each, with ids as trainers make them, in no order of theirs.
_FILL = """
INSERT INTO job (project_id, job, received_us)
    SELECT (SELECT min(id) FROM project), 'filled-' || md5(n::text), 0
    FROM generate_series(1, {rows} / 1000) AS n;
INSERT INTO event (project_id, job, id, type, at_us, received_us, batch, body)
    SELECT (SELECT min(id) FROM project), 'filled-' || md5((n % ({rows} / 1000) + 1)::text),
        upper(left(md5(n::text), 26)) || '-' || n, 'heartbeat', n, n, n, repeat('x', 150)
    FROM generate_series(1, {rows}) AS n"""

Row = tuple[int, str, str, str, int, int, int, str]
Bodies = Sequence[bytes]
Results = Iterator[tuple[str, dict[str, float]]]


@dataclass(frozen=True, slots=True)
class Round:
    """What came to the server and to the bare database in one turn, in events a second."""

    served: float
    bare: float
    answered: float | None = None  #: by a server that does nothing else, asked the same


def load_of(name: str, batches: int) -> list[list[bytes]]:
    """Return so many batches for each connection, of a job each."""
    size = batches * 1000 * EVENT_BYTES
    return [bodies_of(f"{name}-{n}", size, PLAIN)[0] for n in range(CONNECTIONS)]


def rows_of(bodies: Bodies) -> Iterator[list[Row]]:
    """Yield the rows that the service keeps of each batch."""
    headers = {"Content-Type": "application/json"}
    now_us = time.time_ns() // 1000
    for number, body in enumerate(bodies):
        batch = decode(body, headers, now_us=now_us, limits=Limits())
        yield [
            (1, each.job, each.id, each.type, each.at, now_us, number, each.body)
            for each in batch.arrivals
        ]


def served(server: Server, connections: Sequence[Bodies]) -> float:
    """Send batches from all connections at once, and return events a second."""
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    with ThreadPoolExecutor(len(connections)) as pool:
        began = time.perf_counter()
        loads = [pool.submit(load, server.address, headers, bodies) for bodies in connections]
        accepted = sum(each.result() for each in loads)
        return accepted / (time.perf_counter() - began)


def bare_sqlite(_url: str, batches: Sequence[list[Row]], folder: Path) -> float:
    """Write each batch in a transaction by ``executemany``, and return events a second."""
    path = folder / "bare.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(_TABLE)
        insert = "INSERT INTO bare_event VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        began = time.perf_counter()
        for rows in batches:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(insert, rows)
            connection.execute("COMMIT")
        seconds = time.perf_counter() - began
    for file in folder.glob("bare.db*"):
        file.unlink()
    return sum(map(len, batches)) / seconds


def bare_postgresql(url: str, batches: Sequence[list[Row]], _folder: Path) -> float:
    """Copy each batch into a staging table and insert it from there; return events a second."""
    with psycopg.connect(_address(url)) as connection, connection.cursor() as cursor:
        cursor.execute(_TABLE)
        cursor.execute("CREATE TEMPORARY TABLE staged (LIKE bare_event) ON COMMIT DELETE ROWS")
        connection.commit()
        texts = [_copied(rows) for rows in batches]
        began = time.perf_counter()
        for text in texts:
            with cursor.copy("COPY staged FROM STDIN") as copy:
                copy.write(text)
            cursor.execute("INSERT INTO bare_event SELECT * FROM staged ON CONFLICT DO NOTHING")
            connection.commit()
        seconds = time.perf_counter() - began
        cursor.execute("DROP TABLE bare_event")
    return sum(map(len, batches)) / seconds


def _address(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _copied(rows: Sequence[Row]) -> str:
    lines = ("\t".join(map(str, row)) for row in rows)
    return "".join(line.replace("\\", "\\\\") + "\n" for line in lines)


BARE: dict[str, Callable[[str, Sequence[list[Row]], Path], float]] = {
    "sqlite": bare_sqlite,
    "postgresql+psycopg": bare_postgresql,
}


def rounds_of(url: str, rounds: int, batches: int, *, worker: bool) -> Iterator[Round]:
    """Serve a database that is empty, and let server and bare database take turns."""
    bare = BARE[url.partition(":")[0]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(url, folder, ETT_EMBEDDED_WORKER=json.dumps(worker)) as server:
            for number in range(rounds):
                bodies = load_of(f"job-{number}", batches)
                events = served(server, bodies)
                rows = [rows for body in bodies for rows in rows_of(body)]
                yield Round(events, bare(url, rows, folder))


def bytes_an_event(url: str) -> float:
    """Return how much an event takes in PostgreSQL, with its indexes."""
    with psycopg.connect(_address(url)) as connection:
        row = connection.execute(_SIZE).fetchone()
    assert row is not None
    return float(row[0])


def fill(url: str, rows: int) -> None:
    """Let PostgreSQL make up so many events of other jobs."""
    with psycopg.connect(_address(url)) as connection:
        connection.execute(_FILL.format(rows=rows))
    with psycopg.connect(_address(url), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE event")


def sync_rate(folder: Path) -> float:
    """Return how many pages a second can be appended and synced, one after the other."""
    path = folder / "pages"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    began = time.perf_counter()
    for _ in range(_SYNCS):
        os.write(file, _PAGE)
        os.fsync(file)
    seconds = time.perf_counter() - began
    os.close(file)
    path.unlink()
    return _SYNCS / seconds


async def answering(scope: Any, receive: Any, send: Any) -> None:
    """Answer each request as if its one event had been taken: the floor of HTTP."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"14")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"accepted":1}'})


@contextmanager
def answering_server() -> Iterator[Server]:
    """Serve :func:`answering` as the service is served, in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = str(listener.fileno())
        command = [sys.executable, "-m", "uvicorn", "benchmarks.ingest:answering", "--fd", number]
        options = ["--http", "httptools", "--lifespan", "off", "--no-access-log"]
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, *options, "--log-level", "critical"], pass_fds=[listener.fileno()]
        )
        try:
            yield Server(f"http://127.0.0.1:{listener.getsockname()[1]}", "none")
        finally:
            process.terminate()
            process.wait()


def single_rounds(url: str, rounds: int, seconds: float) -> Iterator[Round]:
    """Let connections send one event a request, in turns with synced pages and a bare server."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            serving(url, folder, ETT_EMBEDDED_WORKER="false") as server,
            answering_server() as bare,
        ):
            steps = count()
            for each in (server, bare):
                single_rate(each, steps, 0.5)  # the first requests of a process take longer
            for _ in range(rounds):
                rate, syncs = single_rate(server, steps, seconds), sync_rate(folder)
                yield Round(rate, syncs, single_rate(bare, steps, seconds))


def single_rate(server: Server, steps: Iterator[int], seconds: float) -> float:
    """Send for so long, the next request of a connection after each answer; requests a second."""
    address = urlsplit(server.address)
    selector = selectors.DefaultSelector()
    for number in range(SINGLE_CONNECTIONS):
        connection = socket.create_connection((address.hostname, address.port))
        selector.register(connection, selectors.EVENT_READ, f"single-{number}")
        connection.sendall(_request(server, f"single-{number}", next(steps)))
    began, answers = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for key, _ in selector.select():
            connection = key.fileobj  # type: ignore[assignment]
            _require_taken(_answer(connection))
            answers += 1
            connection.sendall(_request(server, key.data, next(steps)))
    taken = time.perf_counter() - began
    for key in list(selector.get_map().values()):
        _answer(key.fileobj)  # type: ignore[arg-type]
        key.fileobj.close()  # type: ignore[union-attr]
    return answers / taken


def _request(server: Server, job: str, step: int) -> bytes:
    at = f"2026-03-01T{step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}Z"
    event = {"type": "progress", "job": job, "at": at, "id": f"{job}-{step}", "step": step}
    body = json.dumps({"events": [event]})
    return (
        f"POST /v1/events HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {server.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


def _answer(connection: socket.socket) -> bytes:
    """Read one answer, which comes in one or two pieces."""
    answer = b""
    while not answer.endswith(b"}"):
        piece = connection.recv(65536)
        if not piece:
            raise RuntimeError(f"the server closed a connection after {answer!r}")
        answer += piece
    return answer


def _require_taken(answer: bytes) -> None:
    if b'"accepted":1' not in answer:
        raise RuntimeError(answer.decode())


def medians(rounds: Iterator[Round]) -> dict[str, float]:
    """Return the medians of all rounds, and of the ratio of each."""
    taken = list(rounds)
    row = {
        "events_per_s": statistics.median(each.served for each in taken),
        "bare_per_s": statistics.median(each.bare for each in taken),
        "ratio": statistics.median(each.served / each.bare for each in taken),
    }
    if floors := [each.answered / each.bare for each in taken if each.answered is not None]:
        row["most"] = statistics.median(floors)
    return row


def measured(url: str, arguments: argparse.Namespace) -> Results:
    """Yield what is measured about one store, by name, with its goal as a ratio."""
    kind = url.partition(":")[0]
    rounds, batches = arguments.rounds, arguments.batches
    yield kind, {**medians(rounds_of(url, rounds, batches, worker=False)), "goal": GOALS[kind]}
    yield from (of_sqlite if kind == "sqlite" else of_postgresql)(url, arguments)


def of_sqlite(url: str, arguments: argparse.Namespace) -> Results:
    """Yield what is measured of SQLite alone, in files beside the one of *url*."""
    others = [f"{url.removesuffix('.db')}-{name}.db" for name in ("worked", "single")]
    name = "sqlite, worker on"
    worked = rounds_of(others[0], arguments.rounds, arguments.batches, worker=True)
    yield name, {**medians(worked), "goal": GOALS[name]}
    singles = single_rounds(others[1], arguments.rounds, arguments.seconds)
    yield "sqlite, one event a request", {**medians(singles), "goal": GOAL_SINGLE}


def of_postgresql(url: str, arguments: argparse.Namespace) -> Results:
    """Yield what is measured of PostgreSQL alone, whose database has events by now."""
    size = bytes_an_event(url)
    yield "postgresql, bytes an event", {"bytes": size, "ratio": GOAL_BYTES / size, "goal": 1.0}
    if arguments.rows:
        empty = medians(rounds_of(url, arguments.rounds, arguments.batches, worker=False))
        fill(url, arguments.rows)
        full = medians(rounds_of(url, arguments.rounds, arguments.batches, worker=False))
        ratio = full["ratio"] / empty["ratio"]
        yield f"postgresql, {arguments.rows:,} rows", {**full, "ratio": ratio, "goal": GOAL_FULL}


def shown(name: str, row: dict[str, float]) -> str:
    """Write one result in a line."""
    if "bytes" in row:
        return f"{name:30} {row['bytes']:8,.0f} (goal: under {GOAL_BYTES})"
    most = f", {row['most']:.3f} where nothing is done" if "most" in row else ""
    return (
        f"{name:30} {row['events_per_s']:8,.0f} events/s acknowledged,"
        f" {row['bare_per_s']:,.0f} bare ones beside them, ratio {row['ratio']:.3f}{most}"
        f" (goal: at least {row['goal']})"
    )


def main() -> int:
    """Print what was measured; 3 if a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=10, help="of each connection, in each round")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one-event requests, a round")
    parser.add_argument("--rows", type=int, default=0, help="events that a full store holds")
    parser.add_argument("--database", action="append", default=[], help="address of an empty one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    with databases(arguments.database) as urls:
        for url in urls:
            results.update(measured(url, arguments))
    if arguments.json:
        print(json.dumps(results))
    else:
        for name, row in results.items():
            print(shown(name, row))
    return 0 if all(row["ratio"] >= row["goal"] for row in results.values()) else 3


if __name__ == "__main__":
    sys.exit(main())
