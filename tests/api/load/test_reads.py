"""Large reads: what they and their answers hold, how many run, and that no others wait."""

import asyncio
import os
import socket
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

import pytest
from starlette.types import Message, Send

from ett_service.api.load.overload import Packed, in_pieces
from tests.builders.servers.ett import Server, serving_new
from tests.builders.servers.resident import forget_peak, peak_mib

SERIES = "/v1/fleet/series?step=1h&from=2024-01-01T00:00:00Z&to=2024-06-01T00:00:00Z"
LONG = "/v1/fleet/series?step=1h&from=2024-01-01T00:00:00Z&to=2025-02-20T06:00:00Z"


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Server]:
    """A server on a job of 3,648 hours (9,990), each of which is a point of the fleet's series."""
    end = "2025-02-20T06:00:00Z" if pytestconfig.getoption("--long") else "2024-06-01T00:00:00Z"
    with serving_new(tmp_path_factory.mktemp("reads")) as server:
        _train(server, end)
        yield server


def _train(server: Server, end: str) -> None:
    span = {"type": "span", "job": "long", "phase": "train_loop"}
    bounds = {"start": "2024-01-01T00:00:00Z", "at": end}
    assert server.send([{**span, **bounds}], history=True).status == 200
    server.reaches("/v1/jobs/long", lambda job: job["e2e_seconds"] > 0)


def _status(server: Server, path: str) -> int:
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=120)
    connection.request("GET", path, headers={"Authorization": f"Bearer {server.key}"})
    answer = connection.getresponse()
    while answer.read(1 << 20):
        pass
    connection.close()
    return answer.status


def _cost(server: Server, ask: Callable[[], None]) -> float:
    """The seconds that the server computes because of *ask*, however busy the machine is."""
    before = _processor_seconds(server)
    ask()
    spent = before
    while (now := _processor_seconds(server)) > spent:
        spent = now
        time.sleep(0.2)
    return spent - before


def _processor_seconds(server: Server) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _median_of_posts(server: Server, number: int) -> float:
    took = []
    for each in range(number):
        began = time.perf_counter()
        event = {"type": "heartbeat", "job": "short", "at": "2026-03-01T12:00:00Z"}
        assert server.send([{**event, "rank": each}]).status == 200
        took.append(time.perf_counter() - began)
    return statistics.median(took)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("readers", "path"), [(6, SERIES), pytest.param(48, LONG, marks=pytest.mark.long)]
)
def test_many_large_reads_of_one_project_stall_no_other(
    server: Server, readers: int, path: str
) -> None:
    other = server.project(f"other-{readers}")
    alone = _median_of_posts(other, 20)
    forget_peak(server.pid)
    before = peak_mib(server.pid)
    ended = Event()

    def ask() -> list[int]:
        statuses = []
        while not ended.wait(0.05):
            statuses.append(_status(server, path))
        return statuses

    with ThreadPoolExecutor(readers) as threads:
        reads = [threads.submit(ask) for _ in range(readers)]
        time.sleep(0.3)
        beside = _median_of_posts(other, 20)
        ended.set()
        statuses = {status for each in reads for status in each.result()}

    assert {200, 429} <= statuses <= {200, 429, 503}
    assert beside < 25 * alone, f"{beside:.3f} s beside, {alone:.3f} s alone"
    assert peak_mib(server.pid) - before < 150


@pytest.mark.slow
def test_a_read_ends_when_its_client_has_gone(server: Server) -> None:
    def read_whole() -> None:
        assert _status(server, SERIES) == 200

    def leave() -> None:
        with _sending(server, SERIES):
            time.sleep(0.01)

    _cost(server, read_whole)  # until its statements are compiled and the sums are merged
    whole = statistics.median(_cost(server, read_whole) for _ in range(3))
    left = statistics.median(_cost(server, leave) for _ in range(5))

    assert left < 0.6 * whole


def test_an_answer_leaves_in_pieces_each_of_which_waits_for_the_client() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    body = b"0123456789" * 20_000
    asyncio.run(_send_all(in_pieces(send), body))

    bodies = [message["body"] for message in sent]
    assert b"".join(bodies) == body
    assert max(map(len, bodies)) == 1 << 16
    assert [message["more_body"] for message in sent] == [True] * (len(sent) - 1) + [False]


async def _send_all(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": False})


def test_a_server_with_many_reads_ends_when_asked(server: Server) -> None:
    with ExitStack() as clients:
        for _ in range(6):
            clients.enter_context(_sending(server, SERIES))
        time.sleep(0.05)
        began = time.perf_counter()
        server.stop()
        assert time.perf_counter() - began < 10


@contextmanager
def _sending(server: Server, path: str) -> Iterator[socket.socket]:
    """Ask, and read nothing."""
    host, port = urlsplit(server.url).netloc.split(":")
    with socket.create_connection((host, int(port))) as client:
        lines = (f"GET {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {server.key}", "", "")
        client.sendall("\r\n".join(lines).encode())
        yield client


@pytest.mark.parametrize("sizes", [[], [0], [5], [70_000, 0, 1], [1 << 20] * 3])
def test_a_packed_answer_comes_out_as_it_went_in(sizes: list[int]) -> None:
    pieces = [bytes(each % 251 for each in range(size)) for size in sizes]
    response = Packed(pieces).response("text/plain", {})

    async def body() -> bytes:
        return b"".join(
            [piece async for piece in response.body_iterator if isinstance(piece, bytes)]
        )

    assert asyncio.run(body()) == b"".join(pieces)
    assert response.headers["content-length"] == str(sum(sizes))


def test_a_packed_answer_holds_a_small_part_of_itself() -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    response = Packed(b'{"ett_ratio":0.87,"jobs":12}' * 2_500 for _ in range(200)).response("x", {})
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert int(response.headers["content-length"]) > 10_000_000
    assert held < 2_000_000
