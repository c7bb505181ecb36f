"""Servers of the standard library that answer beside the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from threading import Thread


@contextmanager
def in_thread(server: BaseServer) -> Iterator[None]:
    """Let *server* answer in a thread of its own until the block ends, which closes it."""
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
