"""A proxy between the service and a PostgreSQL on a socket, which sees each message."""

import re
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import make_url

_PIECE = 1 << 16
_NAME = ".s.PGSQL.5432"
_COMMIT = re.compile(rb"\bCOMMIT\b")

Drops = Callable[[bytes], bool]
"""Is called with each message of a client, and tells whether its answer is to be lost."""


def commits(message: bytes) -> bool:
    """Tell whether a message of a client, from its letter on, commits."""
    return message[:1] in b"QP" and _COMMIT.search(message) is not None


class _Session:
    """One connection, through which messages go until an answer is lost."""

    def __init__(self, client: socket.socket, upstream: str, drops: Drops) -> None:
        self._client = client
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(upstream)
        self._drops = drops
        self._is_dropping = False

    def run(self) -> None:
        back = threading.Thread(target=self._pass_back, daemon=True)
        back.start()
        with suppress(OSError):
            self._server.sendall(self._message(b""))  # the first has no letter
            while True:
                message = self._message(self._exactly(1))
                self._is_dropping |= self._drops(message)
                self._server.sendall(message)
        self._shut()
        back.join()
        self._client.close()
        self._server.close()

    def _pass_back(self) -> None:
        with suppress(OSError):
            while (piece := self._server.recv(_PIECE)) and not self._is_dropping:
                self._client.sendall(piece)
        self._shut()

    def _message(self, letter: bytes) -> bytes:
        length = self._exactly(4)
        return letter + length + self._exactly(struct.unpack("!i", length)[0] - 4)

    def _exactly(self, size: int) -> bytes:
        read = bytearray()
        while len(read) < size:
            piece = self._client.recv(size - len(read))
            if not piece:
                raise ConnectionError("closed between two messages")
            read += piece
        return bytes(read)

    def _shut(self) -> None:
        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def between(url: str, drops: Drops) -> Iterator[str]:
    """Stand before the server of *url* until the block ends, and yield the address there."""
    address = make_url(url)
    upstream = f"{address.query['host']}/{_NAME}"
    folder = Path(tempfile.mkdtemp(prefix="ett-between-"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / _NAME))
        listener.listen(128)
        accepting = threading.Thread(target=_accept, args=(listener, upstream, drops))
        accepting.start()
        try:
            yield address.set(query={"host": str(folder)}).render_as_string(hide_password=False)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            shutil.rmtree(folder)


def _accept(listener: socket.socket, upstream: str, drops: Drops) -> None:
    with suppress(OSError):  # once the listener is shut down
        while True:
            client, _ = listener.accept()
            session = _Session(client, upstream, drops)
            threading.Thread(target=session.run, daemon=True).start()
