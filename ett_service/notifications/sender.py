"""The sender: one request a delivery, over a connection to a checked address, within a deadline."""

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import httpcore2
from standardwebhooks import Webhook
from typing_extensions import override

from ett_service.core.intervals import SECOND_US
from ett_service.notifications.guard import (
    NONE_ALLOWED,
    Address,
    Allowed,
    Guard,
    Refused,
    Resolve,
    resolve,
)
from ett_service.notifications.notice import OF_SETTINGS, Notice, Receiver, Secret, Status, render
from ett_service.storage.receivers.deliveries import DeliveryTry

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


MOST_ANSWER_BYTES = 64 << 10
_SHOWN_LENGTH = 200
_ASKS_TO_WAIT = frozenset({429, 503})
_GONE = 410
_SUCCESS = range(200, 300)
_RESENDS_UNTIL_END = 4  #: a repeated alert ends after so many resends that were missed


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one request; without an answer ``status`` is None."""

    status: int | None
    said: str  #: the beginning of the answer, safe to show, or what went wrong
    took_us: int = 0
    retry_after_us: int | None = None

    @property
    def is_success(self) -> bool:
        """Whether the receiver took it; a redirect is no success."""
        return self.status in _SUCCESS

    @property
    def is_gone(self) -> bool:
        """Whether the receiver wants no more deliveries."""
        return self.status == _GONE

    def tried(self, ended_us: int) -> DeliveryTry:
        """Return what the delivery stores of it."""
        return DeliveryTry(ended_us - self.took_us, self.took_us, self.status, self.said)


@dataclass(frozen=True, slots=True)
class Sending:
    """Limits of requests, and where they may go."""

    connect_seconds: float = 5.0
    total_seconds: float = 15.0
    resend_us: int = 60 * SECOND_US
    allowed: Allowed = NONE_ALLOWED  #: to receivers made by API, beside what is public


@cache
def _default_trust() -> ssl.SSLContext:
    """Return the certificates of the public authorities: read once, since it takes 30 ms."""
    return httpcore2.default_ssl_context()


class Sender:
    """Sends deliveries, from any number of threads.

    It follows no redirect, takes no proxy from the environment, checks certificates by *trust*,
    and reads no more of an answer than it stores.
    """

    def __init__(
        self,
        sending: Sending | None = None,
        *,
        trust: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        self._sending = sending or Sending()
        self._trust = trust or _default_trust()
        self._resolve = resolve

    @property
    def longest_seconds(self) -> float:
        """How long one request takes at most."""
        return self._sending.total_seconds

    def check(self, owner: int, url: str) -> None:
        """Check whether requests to *url* are allowed, as it resolves now.

        Raises:
            Refused: They are not.
        """
        guard = self._guard(owner)
        destination = guard.destination(url)
        try:
            answers = self._resolve(destination.host, destination.port)
        except OSError:
            raise Refused("The host has no address.") from None
        guard.addresses(destination.host, answers)

    def send(self, receiver: Receiver, delivery_id: str, notice: Notice, now_us: int) -> Outcome:
        """Send *notice*; errors of the request are an outcome, and not raised."""
        began = time.perf_counter()
        try:
            outcome = self._request(receiver, delivery_id, notice, now_us)
        except (Refused, httpcore2.TimeoutException, httpcore2.NetworkError) as error:
            outcome = Outcome(None, str(error))
        except httpcore2.ProtocolError:
            outcome = Outcome(None, "The connection ended without an HTTP answer.")
        return replace(outcome, took_us=round((time.perf_counter() - began) * SECOND_US))

    def _request(
        self, receiver: Receiver, delivery_id: str, notice: Notice, now_us: int
    ) -> Outcome:
        guard = self._guard(receiver.owner)
        destination = guard.destination(receiver.url)
        if is_repeated(receiver, notice):
            ends_us = now_us + _RESENDS_UNTIL_END * self._sending.resend_us
            notice = replace(notice, ends_us=ends_us)
        body = render(notice, receiver)
        is_signed = receiver.format.secret is not Secret.ROUTING_KEY
        headers = {
            "Host": destination.authority,
            "User-Agent": "ett-service",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "Content-Length": str(len(body)),
            "Content-Type": receiver.format.content_type,
            **signed(delivery_id, body, receiver.secrets if is_signed else (), now_us),
        }
        url = httpcore2.URL(
            scheme=destination.scheme,
            host=destination.host,
            port=destination.port,
            target=destination.target,
        )
        request = httpcore2.Request(
            "POST",
            url,
            headers=list(headers.items()),
            content=body,
            extensions={"timeout": {"connect": self._sending.connect_seconds}},
        )
        deadline = Deadline(self._sending.total_seconds)
        network = GuardedNetwork(guard, self._resolve, deadline)
        with httpcore2.HTTPConnection(
            url.origin, ssl_context=self._trust, network_backend=network
        ) as connection:
            return _outcome(connection.handle_request(request), now_us)

    def _guard(self, owner: int) -> Guard:
        return Guard(owner != OF_SETTINGS, self._sending.allowed)


def is_repeated(receiver: Receiver, notice: Notice) -> bool:
    """Whether *receiver* forgets *notice* unless it is sent again and again."""
    return receiver.format.repeats and notice.status is Status.FIRING


def signed(delivery_id: str, body: bytes, secrets: Iterable[str], now_us: int) -> dict[str, str]:
    """Return the headers of a delivery: its id, its instant, and a signature by each secret.

    After a rotation both secrets sign, so that a receiver can change over at any time. Secrets are
    base64, with or without ``whsec_``.

    Raises:
        ValueError: A secret is not base64.
    """
    seconds = now_us // SECOND_US
    at = datetime.fromtimestamp(seconds, tz=UTC)
    text = body.decode()
    signatures = [Webhook(secret).sign(delivery_id, at, text) for secret in secrets]
    headers = {"webhook-id": delivery_id, "webhook-timestamp": str(seconds)}
    return headers | ({"webhook-signature": " ".join(signatures)} if signatures else {})


def _outcome(response: httpcore2.Response, now_us: int) -> Outcome:
    """Read as much of the answer as is stored; its status alone decides."""
    wait_us = None
    if response.status in _ASKS_TO_WAIT:
        waits = [value for name, value in response.headers if name.lower() == b"retry-after"]
        wait_us = retry_after_us(waits[0].decode("ascii", "replace") if waits else "", now_us)
    answer = bytearray()
    try:
        for chunk in response.iter_stream():
            answer += chunk
            if len(answer) >= MOST_ANSWER_BYTES:
                break
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError):
        pass
    return Outcome(response.status, shown(bytes(answer)), retry_after_us=wait_us)


def shown(answer: bytes) -> str:
    """Return the beginning of *answer*; characters that are not printable are escaped."""
    text = answer[: _SHOWN_LENGTH * 4].decode("utf-8", "replace")[:_SHOWN_LENGTH]
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def retry_after_us(header: str, now_us: int) -> int | None:
    """Read ``Retry-After``, seconds or a date; None if it is neither."""
    header = header.strip()
    if not header:
        return None
    if header.isascii() and header.isdigit():
        return int(header[:9]) * SECOND_US
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(int(at.timestamp()) * SECOND_US - now_us, 0)
