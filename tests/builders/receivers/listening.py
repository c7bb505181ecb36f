"""Small real receivers on loopback that answer as badly as a test needs."""

import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from typing_extensions import override

from tests.builders.servers.threads import in_thread


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The id of the delivery."""
        return self.headers["webhook-id"]


_MEBIBYTE = bytes(1 << 20)

Answer = Callable[[Request, socket.socket], None]


@dataclass
class Receiver:
    """A running receiver; ``answer`` may be exchanged while it runs."""

    url: str
    answer: Answer
    connections: int = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rsplit(":", 1)[1].rstrip("/"))


def reply(status: int, body: bytes = b"", **headers: str) -> Answer:
    """Answer properly; ``retry_after="1"`` is the header ``retry-after``."""
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    raw = "\r\n".join([*lines, "", ""]).encode() + body

    def answer(_: Request, sock: socket.socket) -> None:
        sock.sendall(raw)

    return answer


def hang(until: threading.Event) -> Answer:
    """Stay silent until *until*, or for two minutes."""

    def answer(_: Request, _sock: socket.socket) -> None:
        until.wait(120)

    return answer


def reset(_: Request, sock: socket.socket) -> None:
    """End the connection as a crashed machine does."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def drip(until: threading.Event, seconds: float, head: bytes = b"") -> Answer:
    """Answer *head* at once and then a byte every so often, without end."""

    def answer(_: Request, sock: socket.socket) -> None:
        sock.sendall(head)
        for byte in b"HTTP/1.1 200 OK\r\nX-Padding: " + b"x" * 10_000:
            if until.wait(seconds):
                return
            sock.sendall(bytes([byte]))

    return answer


def flood(_: Request, sock: socket.socket) -> None:
    """Answer ten gigabytes, or as much as is read."""
    sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {10 << 30}\r\n\r\n".encode())
    for _piece in range(10 << 10):
        sock.sendall(_MEBIBYTE)


@contextmanager
def receiving(
    answer: Answer | None = None, *, host: str = "127.0.0.1", secured: ssl.SSLContext | None = None
) -> Iterator[Receiver]:
    """Listen on a free port until the block ends."""
    scheme = "https" if secured else "http"
    receiver = Receiver("", answer or reply(204))
    server = _Server((host, 0), receiver, secured)
    receiver.url = f"{scheme}://{host}:{server.server_address[1]}/"
    with in_thread(server):
        yield receiver


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], receiver: Receiver, secured: ssl.SSLContext | None
    ) -> None:
        super().__init__(address, _Answering)
        self.receiver = receiver
        self.secured = secured

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Keep the test's output clean of clients that went away."""


class _Answering(socketserver.BaseRequestHandler):
    server: _Server

    @override
    def handle(self) -> None:
        self.server.receiver.connections += 1
        with suppress(OSError):
            sock: socket.socket = self.request
            if self.server.secured is not None:
                sock = self.server.secured.wrap_socket(sock, server_side=True)
            request = _read(sock)
            if request is not None:
                self.server.receiver.requests.append(request)
                self.server.receiver.answer(request, sock)
            sock.close()


def _read(sock: socket.socket) -> Request | None:
    raw = b""
    while b"\r\n\r\n" not in raw:
        if not (chunk := sock.recv(65_536)):
            return None
        raw += chunk
    head, body = raw.split(b"\r\n\r\n", 1)
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.split(": ", 1) for line in lines)
    headers = {name.lower(): value for name, value in pairs}
    while len(body) < int(headers.get("content-length", "0")):
        body += sock.recv(65_536)
    return Request(first.split(" ")[1], headers, body)
