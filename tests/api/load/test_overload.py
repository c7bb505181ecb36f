"""Whatever is sent at a real server, its memory stays bounded and it goes on answering."""

import asyncio
import gzip
import json
import logging
import socket
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ett_service.api.load.admission import Admission
from ett_service.api.load.overload import Admitted
from ett_service.api.record.events import without_frames
from ett_service.api.state import Capacities, Capacity, ConnectionLimits
from ett_service.client.sending.transport import Response, request
from ett_service.ingest.refusals import MalformedBody
from tests.builders.record import wire
from tests.builders.servers.ett import Server, serving_new
from tests.builders.servers.resident import forget_peak, peak_mib
from tests.builders.servers.waiting import wait_for

log = logging.getLogger(__name__)

pytestmark = pytest.mark.xdist_group("overload")

MIB = 1 << 20
_KEPT_MIB = 100
"""What the allocator keeps, and what requests take that are small."""

EVENTS, TRACES = "/v1/events", "/v1/traces"
JSON, LINES, PROTOBUF = "application/json", "application/x-ndjson", "application/x-protobuf"
BOMBS = {
    "numbers": (EVENTS, JSON, b'{"events":[%s0]}', b"0,"),
    "brackets": (EVENTS, JSON, b'{"events":[%s', b"["),
    "lists": (EVENTS, JSON, b'{"events":[[%s0]]}', b"[],"),
    "half characters": (EVENTS, JSON, b'{"events":["%s"]}', rb"\ud800"),
    "members": (EVENTS, JSON, b'{%s"events":[]}', b'"events":[],'),
    "lines": (EVENTS, LINES, b"%s", b"00\n"),
    "groups": (TRACES, JSON, b'{"resourceSpans":[%s{}]}', b"{},"),
    "fields": (TRACES, PROTOBUF, b"%s", b"\x08\x00"),
}


@dataclass(frozen=True)
class Load:
    """What is sent at once, and by how much a server may grow."""

    inflated: int
    bombs: Sequence[str]
    header_mib: int
    clients: int

    @property
    def growth_mib(self) -> int:
        """Three times the largest body, of which one at a time is worked on."""
        return 3 * self.inflated // MIB + _KEPT_MIB


LOADS = [
    pytest.param(Load(16 * MIB, tuple(BOMBS), 24, 300), id="short"),
    pytest.param(Load(64 * MIB, 5 * tuple(BOMBS), 40, 1500), id="long", marks=pytest.mark.long),
]


@pytest.fixture(scope="module", params=LOADS)
def load(request: pytest.FixtureRequest) -> Load:
    """Return how much is sent."""
    load: Load = request.param
    return load


@pytest.fixture(scope="module")
def server(load: Load, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve with short deadlines."""
    overload = {
        "header_seconds": 1.0,
        "idle_seconds": 3.0,
        "answer_seconds": 2.0,
        "connections": load.clients // 2,
        "wait_seconds": 60.0,
    }
    settings = {
        "ETT_OVERLOAD": json.dumps(overload),
        "ETT_MAX_INFLATED_BYTES": str(load.inflated),
        "ETT_DETECTION": '{"enabled": false}',
    }
    with serving_new(tmp_path_factory.mktemp("overload"), **settings) as server:
        assert server.send([wire()]).status == 200
        yield server


def bomb(case: str, inflated: int) -> bytes:
    """Return a body that is a thousandth of what it becomes."""
    _, _, frame, filling = BOMBS[case]
    return gzip.compress(frame % (filling * ((inflated - 100) // len(filling))), 6, mtime=0)


def post(server: Server, case: str, body: bytes) -> Response:
    path, media, *_ = BOMBS[case]
    headers = {"Content-Type": media, "Content-Encoding": "gzip"}
    return request("POST", server.url + path, server.key, body, headers, timeout=200)


def opened(server: Server, data: bytes = b"") -> socket.socket:
    """Connect, and send the begin of a request."""
    address = urlsplit(server.url)
    connection = socket.socket()
    connection.settimeout(60)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # or it would take megabytes
    connection.connect((str(address.hostname), address.port or 0))
    with suppress(OSError):  # it may be closed by now
        connection.sendall(data)
    return connection


def refusals(server: Server, reason: str) -> float:
    """Return how many the server has refused for this reason."""
    page = request("GET", f"{server.url}/metrics", timeout=60).body.decode()
    name = f'ett_http_refused_total{{reason="{reason}"}} '
    return float(next(line for line in page.splitlines() if line.startswith(name))[len(name) :])


def is_healthy(server: Server) -> bool:
    return request("GET", f"{server.url}/healthz", timeout=60).status == 200


@pytest.mark.slow
def test_small_bodies_that_become_large_take_a_small_multiple_of_one(
    server: Server, load: Load
) -> None:
    bodies = {case: bomb(case, load.inflated) for case in BOMBS}
    before = forget_peak(server.pid)
    with ThreadPoolExecutor(len(load.bombs)) as pool:
        sent = [pool.submit(post, server, case, bodies[case]) for case in load.bombs]
        assert is_healthy(server)
        answers = [each.result() for each in sent]
    assert {each.status for each in answers} <= {400, 413, 422}
    grown = peak_mib(server.pid) - before
    log.warning("%d bombs, grown by %d MiB", len(load.bombs), grown)
    assert grown < load.growth_mib
    assert server.send([wire()]).status == 200


class _Body:
    """Can be watched, unlike bytes."""


def test_a_refusal_holds_nothing_of_the_body() -> None:
    bodies: weakref.WeakSet[_Body] = weakref.WeakSet()

    def parse(_: _Body) -> None:
        raise ValueError

    def decode() -> None:
        body = _Body()
        bodies.add(body)
        try:
            parse(body)
        except ValueError as error:
            raise MalformedBody("no JSON") from error

    with pytest.raises(MalformedBody) as raised:
        decode()
    error = without_frames(raised.value)
    del raised
    assert (str(error), len(bodies)) == ("no JSON", 0)


@pytest.mark.parametrize("line", [b"a: %s\r\n", b"%s"], ids=["one", "no line"])
def test_headers_without_an_end_are_not_kept(server: Server, load: Load, line: bytes) -> None:
    huge = b"GET / HTTP/1.1\r\n" + line % (b"x" * load.header_mib * MIB)
    before = forget_peak(server.pid)
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        sent: list[Future[socket.socket]] = [pool.submit(opened, server, huge) for _ in range(8)]
        assert is_healthy(server)
        for each in sent:
            stack.enter_context(each.result())
    assert refusals(server, "headers_large") >= 8
    assert peak_mib(server.pid) - before < _KEPT_MIB


def test_clients_that_never_finish_their_headers_keep_nobody_out(
    server: Server, load: Load
) -> None:
    before = forget_peak(server.pid)
    with ExitStack() as stack:
        halves = [stack.enter_context(opened(server, b"GET / HT")) for _ in range(load.clients)]
        for _ in range(20):
            assert server.send([wire()]).status == 200
        wait_for(lambda: refusals(server, "headers_slow") >= load.clients // 2 - 30)
        for each in halves[-10:]:
            assert each.recv(1 << 16).startswith(b"HTTP/1.1 408 ")
    assert refusals(server, "connections") >= load.clients // 2
    assert peak_mib(server.pid) - before < _KEPT_MIB


def test_what_nobody_waits_for_any_more_is_not_written(server: Server) -> None:
    events = [wire("progress", step=step, job="abandoned") for step in range(1, 3001)]
    body = json.dumps({"events": events}).encode()
    before = refusals(server, "sender_gone")
    opened(
        server,
        b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
        % (server.key.encode(), len(body))
        + body,
    ).close()
    wait_for(lambda: refusals(server, "sender_gone") > before)
    assert not server.knows("abandoned")


@pytest.mark.slow
def test_who_never_takes_an_answer_is_closed(server: Server) -> None:
    pipelined = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 8
    before = forget_peak(server.pid)
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(opened(server, pipelined))
        wait_for(lambda: refusals(server, "answer_slow") >= 20)
    assert peak_mib(server.pid) - before < 3 * _KEPT_MIB
    assert "Traceback" not in server.log


def test_the_log_has_a_line_a_minute_and_none_for_each_of_them(server: Server) -> None:
    for _ in range(20):
        opened(server, b"nonsense\r\n\r\n").close()
    wait_for(lambda: refusals(server, "malformed") >= 20)
    lines = wait_for(
        lambda: [line for line in server.log.splitlines() if "Refused requests." in line]
    )
    assert len(lines) <= 5
    assert not any("Invalid HTTP" in line for line in server.log.splitlines())


class Slow:
    """An application that works on what it is sent until it may end."""

    def __init__(self) -> None:
        self.began = 0
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer."""
        self.began += 1
        if scope["path"] != "/healthz":
            await self.ended.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


async def sent_to(app: ASGIApp, path: str, admission: Admission, key: str) -> int:
    """Send a GET, and return the status of the answer."""
    statuses: list[int] = []
    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()  # it stays connected
        return messages.pop()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    state = {"admission": admission, "request_id": "r", "app": Limited()}
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": [(b"authorization", key.encode())], "state": state,
    }  # fmt: skip
    await app(scope, receive, send)
    return statuses[0]


class Limited:
    """What the middleware reads of the application's state."""

    connections = ConnectionLimits()


def test_reads_wait_for_a_place_or_are_refused_and_health_takes_none() -> None:
    async def test() -> None:
        slow = Slow()
        app = Admitted(slow)
        capacity = Capacity(requests=1, cost=MIB, waiting=1, wait_s=60)
        admission = Admission(Capacities(reads=capacity))
        reads = [asyncio.ensure_future(sent_to(app, "/v1/jobs", admission, "k")) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert (slow.began, admission.reads.waiting) == (1, 1)
        assert await sent_to(app, "/v1/jobs", admission, "k") == 503
        assert await sent_to(app, "/healthz", admission, "k") == 204
        slow.ended.set()
        assert await asyncio.gather(*reads) == [204, 204]
        assert admission.reads.requests == 0

    asyncio.run(test())
