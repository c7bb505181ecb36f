"""A TCP proxy on the loopback interface that spoils exchanges: one request a connection."""

import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from urllib.parse import urlsplit

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_HEAD_ENDS = b"\r\n\r\n"
_RESET = struct.pack("ii", 1, 0)  # what makes a close a reset
_PAGE = b"<html><body>Please log in</body></html>"
_PORTAL = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(_PAGE)
) + _PAGE


class Fault(Enum):
    """What becomes of an exchange."""

    NONE = auto()
    RESET_BEFORE = auto()  #: the server never sees the request
    RESET_AFTER = auto()  #: the server has taken it, and the answer is lost
    HALF = auto()  #: of the answer
    HTML = auto()  #: 200 from something in between
    DELAY = auto()


@dataclass
class Proxy:
    """Stands before a server; ``draw`` chooses what becomes of each exchange."""

    url: str
    upstream: tuple[str, int]
    draw: Callable[[], Fault]
    faults: Counter[Fault] = field(default_factory=Counter)
    last: Fault = Fault.NONE

    def serve(self, connection: socket.socket) -> None:
        """Pass on one exchange, or spoil it."""
        with connection, suppress(OSError):
            self.last = fault = self.draw()
            self.faults[fault] += 1
            request = _message(connection)
            if fault is Fault.RESET_BEFORE:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return
            if fault is Fault.HTML:
                connection.sendall(_PORTAL)
                return
            if fault is Fault.DELAY:
                time.sleep(0.02)
            answer = self._answer(request)
            if fault is Fault.RESET_AFTER:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return
            connection.sendall(answer[: len(answer) // 2] if fault is Fault.HALF else answer)

    def _answer(self, request: bytes) -> bytes:
        with socket.create_connection(self.upstream) as server:
            server.sendall(request)
            return _message(server)


def _message(connection: socket.socket) -> bytes:
    """Read a request or an answer: a head, and as much behind it as that says."""
    message = bytearray()
    while _HEAD_ENDS not in message:
        message += _received(connection)
    head = message.index(_HEAD_ENDS) + len(_HEAD_ENDS)
    length = _LENGTH.search(message[:head])
    end = head + (int(length[1]) if length else 0)
    while len(message) < end:
        message += _received(connection)
    return bytes(message)


def _received(connection: socket.socket) -> bytes:
    some = connection.recv(1 << 16)
    if not some:
        raise ConnectionError("closed in the middle of a message")
    return some


@contextmanager
def proxying(server_url: str, draw: Callable[[], Fault]) -> Iterator[Proxy]:
    """Stand before a server until the block ends."""
    address = urlsplit(server_url)
    assert address.hostname is not None
    assert address.port is not None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        proxy = Proxy(url, (address.hostname, address.port), draw)
        thread = threading.Thread(target=_accept, args=(listener, proxy))
        thread.start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(listener: socket.socket, proxy: Proxy) -> None:
    with suppress(OSError):  # once the listener is shut down
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=proxy.serve, args=(connection,), daemon=True).start()
