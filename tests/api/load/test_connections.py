"""What a connection may take, with each of uvicorn's parsers."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Thread

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ett_service.api.app import create_app
from ett_service.api.load.connections import bounded_protocol
from ett_service.api.state import AppState, ConnectionLimits
from ett_service.ingest.wire import Limits
from ett_service.storage.engine.store import Store
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.servers.waiting import wait_for

LIMITS = ConnectionLimits(header_s=0.2, idle_s=0.2)

pytestmark = ON_ONE_ENGINE


PARSERS = pytest.mark.parametrize(
    "parser", [H11Protocol, HttpToolsProtocol], ids=["h11", "httptools"]
)


@pytest.fixture(params=[H11Protocol, HttpToolsProtocol], ids=["h11", "httptools"])
def port(request: pytest.FixtureRequest, store: Store) -> Iterator[int]:
    """Return where the application listens."""
    with _listening(store, request.param) as server:
        yield port_of(server)


@contextmanager
def _listening(
    store: Store, parser: type[asyncio.Protocol], limits: ConnectionLimits = LIMITS
) -> Iterator[uvicorn.Server]:
    state = AppState(store=store, now_us=lambda: 0, limits=Limits(), connections=limits)
    config = uvicorn.Config(
        create_app(lambda: nullcontext(state)),
        port=0,
        log_config=None,
        http=bounded_protocol(limits, parser),
        timeout_keep_alive=60,
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run)
    thread.start()
    wait_for(lambda: server.started)
    yield server
    server.should_exit = True
    thread.join()


def port_of(server: uvicorn.Server) -> int:
    """Return where it listens."""
    port: int = server.servers[0].sockets[0].getsockname()[1]
    return port


def answered(port: int, *sent: bytes) -> bytes:
    """Send this, and return all that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for each in sent:
            connection.sendall(each)
        return all_of(connection)


def all_of(connection: socket.socket) -> bytes:
    """Return all that comes until the other side closes."""
    answer = b""
    while piece := connection.recv(1 << 16):
        answer += piece
    return answer


def problem(answer: bytes) -> tuple[int, str]:
    """Read the only problem document in an answer: its status, and its kind."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    assert b"x-request-id: " in head.lower()
    document = json.loads(body)
    assert head.startswith(b"HTTP/1.1 %d " % document["status"])
    return document["status"], document["type"].rpartition(":")[2]


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (HEALTH + b"a: " + b"x" * 200_000, (431, "headers-too-large")),
        (HEALTH + b"a: b\r\n" * 40_000, (431, "headers-too-large")),
        (HEALTH + b"a: b\r\n" * 101 + b"\r\n", (431, "headers-too-large")),
        (HEALTH + b"a: " + b"x" * 40_000 + b"\r\n\r\n", (431, "headers-too-large")),
        (b"GET /" + b"x" * 200_000, (414, "address-too-long")),
        (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", (414, "address-too-long")),
        (HEALTH, (408, "request-timeout")),
        (b"nonsense\r\n\r\n", (400, "bad-request")),
    ],
    ids=["one", "many", "101", "large", "line", "address", "half", "nonsense"],
)
def test_what_is_too_much_or_too_slow_is_refused_by_a_problem_document(
    port: int, sent: bytes, expected: tuple[int, str]
) -> None:
    assert problem(answered(port, sent)) == expected


def test_a_connection_without_a_request_is_closed(port: int) -> None:
    assert answered(port) == b""
    assert answered(port, HEALTH + b"\r\n").startswith(b"HTTP/1.1 200 ")


@PARSERS
def test_who_has_connected_to_a_server_that_ends_is_answered_before_it_does(
    store: Store, parser: type[asyncio.Protocol]
) -> None:
    with _listening(store, parser, ConnectionLimits()) as server:
        address = ("127.0.0.1", port_of(server))
        with (
            socket.create_connection(address, timeout=60) as new,
            socket.create_connection(address, timeout=60) as begun,
            socket.create_connection(address, timeout=60) as silent,
        ):
            begun.sendall(HEALTH)
            wait_for(lambda: len(server.server_state.connections) == 3)
            server.should_exit = True
            wait_for(lambda: not server.servers[0].is_serving())
            new.sendall(HEALTH + b"\r\n")
            begun.sendall(b"\r\n")
            answers = [all_of(each) for each in (new, begun, silent)]
    assert [each[:12] for each in answers] == [b"HTTP/1.1 200", b"HTTP/1.1 200", b""]


def test_requests_may_come_in_pieces_and_one_behind_another(port: int) -> None:
    sent = HEALTH + b"\r\n" + HEALTH + b"a: b\r\n\r\n"
    for size in (1, 7, len(sent)):
        pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
        assert answered(port, *pieces).count(b"HTTP/1.1 200 ") == 2


def test_what_is_behind_a_body_is_bounded_as_headers_are(port: int) -> None:
    chunked = b"POST /v1/events HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(chunked)
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):
            send_on(connection, b"a: " + b"x" * 10_000)


def test_the_rest_of_a_request_that_has_its_answer_is_not_waited_for(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n")
        connection.sendall(b"x" * (64 << 10))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 405 ")
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):
            send_on(connection, b"x")


def send_on(connection: socket.socket, data: bytes) -> None:
    """Send until the connection is closed. Raises ``OSError``."""
    while True:
        connection.sendall(data)
        time.sleep(0.01)
