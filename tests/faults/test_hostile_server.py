"""A server that redirects, never ends, sets cookies and lies about time harms no trainer."""

import itertools
import json
import logging
import socket
import socketserver
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.builders.servers.threads import in_thread
from tests.builders.trainers import environment, run_trainer, spooled

log = logging.getLogger(__name__)

BARE = """
import sys, threading, time
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
taken = []
while not ended.is_set():
    began = time.perf_counter()
    while time.perf_counter() - began < 0.0001:
        pass
    taken.append(time.perf_counter() - began)
    time.sleep(0.001)
print(sorted(taken)[int(len(taken) * 0.999)] * 1000)
"""
"""How long bare work of 0.1 ms takes, at the 99.9th percentile until its input ends."""

TRAINER = """
import json, resource, subprocess, sys, threading, time
ett.init(torch=False)
def flush():
    for _ in range(int(sys.argv[1])):
        ett.flush(0.3)
ett.flush(0.3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
flushing = threading.Thread(target=flush)
command, pipe = [sys.executable, "-c", sys.argv[2]], subprocess.PIPE
bare = subprocess.Popen(command, stdin=pipe, stdout=pipe)
flushing.start()
calls = []
while flushing.is_alive():
    began = time.perf_counter()
    with ett.phase("evaluation"):
        pass
    ett.step(1)
    calls.append(time.perf_counter() - began)
    time.sleep(0.001)
calls.sort()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"rss_kib": after - before, "calls": len(calls), "worst_ms": calls[-1] * 1000,
    "p999_ms": calls[int(len(calls) * 0.999)] * 1000,
    "bare_p999_ms": float(bare.communicate()[0])}))
"""

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: %b\r\n\r\n"
_CHUNK = b"[" * (1 << 16)
_COOKIES = b"".join(b"Set-Cookie: c%d=%b\r\n" % (n, b"x" * 4000) for n in range(90))


def endless(connection: socket.socket, _: str) -> None:
    """Answer until the client has enough."""
    connection.sendall(_OK + b"\r\n")
    while True:
        connection.sendall(_CHUNK)


def redirect(connection: socket.socket, elsewhere: str) -> None:
    """Send the client to another host."""
    to = f"Location: {elsewhere}/v1/events\r\n".encode()
    connection.sendall(b"HTTP/1.1 302 Elsewhere\r\nContent-Length: 0\r\n" + to + b"\r\n")


def answering(answer: bytes) -> Callable[[socket.socket, str], None]:
    """Answer with these bytes."""
    return lambda connection, _: connection.sendall(answer)


WAYS = (
    redirect,
    endless,
    answering(_BUSY % b"1000000000"),
    answering(_BUSY % b"nan"),
    answering(_BUSY % b"Fri, 31 Dec 2999 23:59:59 GMT"),
    answering(_OK + _COOKIES + b"Content-Length: 2\r\n\r\n{}"),
    answering(_OK + b"X: " + b"y" * 100_000 + b"\r\n\r\n"),
    answering(b"\x16\x03\x01 no HTTP at all"),
    answering(_OK + b"Content-Length: 99999999999\r\n\r\n{"),
    answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFF\r\n{"),
)


@dataclass
class Hostile:
    """Answers each request in the next of the ways, and remembers the heads of requests."""

    url: str = ""
    elsewhere: str = ""
    heads: list[bytes] = field(default_factory=list)
    ways: Iterator[Callable[[socket.socket, str], None]] = field(
        default_factory=lambda: itertools.cycle(WAYS)
    )

    def answer(self, connection: socket.socket) -> None:
        """Read the head of a request, and answer."""
        with suppress(OSError):
            self.heads.append(connection.recv(1 << 16))
            next(self.ways)(connection, self.elsewhere)


@contextmanager
def listening(hostile: Hostile) -> Iterator[Hostile]:
    """Listen on a free port until the block ends."""

    class Answering(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            hostile.answer(self.request)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    server.block_on_close = False
    hostile.url = f"http://127.0.0.1:{server.server_address[1]}"
    with in_thread(server):
        yield hostile


@pytest.mark.parametrize("flushes", [11, pytest.param(None, marks=pytest.mark.long, id="long")])
def test_a_hostile_server_gets_nothing_out_of_a_trainer(
    tmp_path: Path, flushes: int | None, pytestconfig: pytest.Config
) -> None:
    in_full = flushes is None
    flushes = flushes or pytestconfig.getoption("--rounds")
    with listening(Hostile()) as elsewhere, listening(Hostile(elsewhere=elsewhere.url)) as hostile:
        done = run_trainer(TRAINER, environment(tmp_path, hostile.url), str(flushes), BARE)
        secured = environment(tmp_path / "tls", hostile.url.replace("http:", "https:"))
        assert run_trainer("ett.init()\nett.flush(0.3)", secured).returncode == 0
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    log.warning(
        "%d requests: %s, key to others %d", len(hostile.heads), counts, len(elsewhere.heads)
    )
    assert elsewhere.heads == []
    assert len(hostile.heads) > len(WAYS)
    assert not any(b"cookie" in head.lower() for head in hostile.heads)
    assert len(spooled(tmp_path)) > counts["calls"]
    assert counts["rss_kib"] <= 8 << 10
    assert not in_full or counts["p999_ms"] <= 2 * counts["bare_p999_ms"] + 5
