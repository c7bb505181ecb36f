"""Connections to checked addresses, each with a deadline for all of its waiting."""

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import httpcore2
from typing_extensions import override

from ett_service.notifications.guard import Address, Guard, Refused, Resolve

_SHORTEST_WAIT = 0.001  #: 0 would make a socket that never blocks


class Deadline:
    """The instant that ends all waiting."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self, late: type[httpcore2.TimeoutException], most: float | None = None) -> float:
        """Return how many seconds are left, *most* at most; raise *late* if there are none."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise late("It took too long.")
        return max(left if most is None else min(left, most), _SHORTEST_WAIT)


class GuardedNetwork(httpcore2.NetworkBackend):
    """Resolves a host once, checks all answers, and connects to one of them.

    TLS and the ``Host`` header still see the name, so certificates are checked as usual.
    """

    def __init__(self, guard: Guard, resolve: Resolve, deadline: Deadline) -> None:
        self._guard = guard
        self._resolve = resolve
        self._deadline = deadline

    @override
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        late = httpcore2.ConnectTimeout
        connecting = Deadline(self._deadline.left(late, timeout))
        answers = _in_time(lambda: self._resolve(host, port), connecting.left(late))
        failure: Exception = httpcore2.ConnectError("The host has no address.")
        for address in self._guard.addresses(host, answers):
            try:
                return _Stream(_connected(address, port, connecting.left(late)), self._deadline)
            except TimeoutError as error:
                failure = late("The connection took too long.")
                failure.__cause__ = error
            except OSError as error:
                failure = httpcore2.ConnectError(_reason(error))
                failure.__cause__ = error
        raise failure


class _Stream(httpcore2.NetworkStream):
    """A socket whose waits end at the deadline, however slowly bytes come or go."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    @override
    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._sock.settimeout(self._deadline.left(httpcore2.ReadTimeout, timeout))
        try:
            return self._sock.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore2.ReadTimeout("The answer took too long.") from error
        except OSError as error:
            raise httpcore2.ReadError(_reason(error)) from error

    @override
    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        while rest:
            self._sock.settimeout(self._deadline.left(httpcore2.WriteTimeout, timeout))
            try:
                rest = rest[self._sock.send(rest) :]
            except TimeoutError as error:
                raise httpcore2.WriteTimeout("The request took too long.") from error
            except OSError as error:
                raise httpcore2.WriteError(_reason(error)) from error

    @override
    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        try:
            self._sock.settimeout(self._deadline.left(httpcore2.ConnectTimeout, timeout))
            secured = ssl_context.wrap_socket(self._sock, server_hostname=server_hostname)
        except TimeoutError as error:
            self.close()
            raise httpcore2.ConnectTimeout("TLS took too long.") from error
        except OSError as error:
            self.close()
            raise httpcore2.ConnectError(_reason(error)) from error
        return _Stream(secured, self._deadline)

    @override
    def close(self) -> None:
        self._sock.close()

    @override
    def get_extra_info(self, info: str) -> Any:
        return None


def _connected(address: Address, port: int, seconds: float) -> socket.socket:
    sock = socket.create_connection((str(address), port), seconds)
    peer = sock.getpeername()
    if (ip_address(peer[0]), peer[1]) != (address, port):
        sock.close()
        raise Refused("The connection went to another address than the checked one.")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _in_time(work: Callable[[], list[str]], seconds: float) -> list[str]:
    """Do work that has no timeout in a thread, which is abandoned once the time is over."""
    done: SimpleQueue[list[str] | OSError | UnicodeError] = SimpleQueue()

    def run() -> None:
        try:
            done.put(work())
        except (OSError, UnicodeError) as error:
            done.put(error)

    Thread(target=run, name="ett-resolve", daemon=True).start()
    try:
        result = done.get(timeout=seconds)
    except Empty:
        raise httpcore2.ConnectTimeout("The host was not resolved in time.") from None
    if isinstance(result, Exception):
        raise httpcore2.ConnectError("The host cannot be resolved.") from result
    return result


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The certificate is not valid: {error.verify_message}."
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or 'the peer closed the connection'}."
    return f"{error.strerror or type(error).__name__}."
