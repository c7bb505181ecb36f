"""Bounds of a connection, whichever parser reads it: headers, time, and an answer nobody takes.

Uvicorn bounds none of them before a request is whole. Its protocols are extended here: what is fed
to the parser is counted, and one timer a second looks at all connections.
"""

import asyncio
import heapq
import logging
import resource
import time
from collections import deque
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import h11
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ett_service.api.answers import add_headers
from ett_service.api.load.admission import Refused
from ett_service.api.problems import Problem, ProblemKind, render
from ett_service.api.state import ConnectionLimits

_PIECE = 16 << 10
_SWEEP_S = 1.0
_LINGER_S = 2.0
_MOST_PIPELINED = 8
_LEAST_TAKEN = 64 << 10
_FIRST_S = 1.0  #: in which a client sends what it has connected for, once the server ends
_EVICTED = 100  #: a hundredth of all
_OTHER_FILES = 512  #: descriptors that are no connections
_ONE_A_REQUEST = frozenset({"Invalid HTTP request received.", "Unsupported upgrade request."})


class Watch:
    """All connections of a server. It closes those that take too long."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._sweep_s = min(_SWEEP_S, limits.header_s / 4)
        self._open: set[_Bounded] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: "_Bounded") -> bool:
        """Take a connection in; where there are too many, those that have been idle longest go.

        They go by the hundredth: to look for one a connection would take all of a processor while
        hundreds come each second. Returns False if none is idle.
        """
        is_room = len(self._open) < self.limits.connections
        if not is_room:
            idle = [each for each in self._open if each.is_idle]
            number = max(1, self.limits.connections // _EVICTED)
            for each in heapq.nsmallest(number, idle, key=lambda each: each.since):
                self._open.discard(each)
                each.evict()
                is_room = True
        self._open.add(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._sweep_s, self._sweep)
        return is_room

    def discard(self, connection: "_Bounded") -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)

    def _sweep(self) -> None:
        self._timer = None
        now = time.monotonic()
        for each in tuple(self._open):
            each.check(now)
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(self._sweep_s, self._sweep)


class _Bounded:
    """Goes before one of uvicorn's protocols, whose members it uses."""

    watch: Watch
    transport: asyncio.Transport
    app_state: dict[str, Any]
    cycle: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.since = time.monotonic()  #: when it began to wait for what it waits for
        self._head = 0  #: bytes of headers that are not whole
        self._has_line = False
        self._lingers = False  #: it has been refused, and what else it sends is not read
        self._closes_at: float | None = None  #: unless it is worked on
        self._unsent: tuple[int, float] = 0, 0.0

    @property
    def is_idle(self) -> bool:
        """Whether it has sent no whole headers since the last answer, and takes no answer."""
        return not self._is_working() and not self.transport.get_write_buffer_size()

    def evict(self) -> None:
        """Close it for another."""
        self._count(Refused.CONNECTIONS)
        self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        super().connection_made(transport)  # type: ignore[misc]
        if not self.watch.add(self):
            self._refuse(ProblemKind.OVERLOADED, Refused.CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.watch.discard(self)
        super().connection_lost(exc)  # type: ignore[misc]

    def data_received(self, data: bytes) -> None:
        """Feed headers to the parser in pieces, so that no more than a limit is ever in it."""
        while data and not self._lingers and not self.transport.is_closing():
            size = _PIECE if self._is_in_head() else len(data)
            self._feed(data[:size])
            data = data[size:]

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.since = time.monotonic()
        super().on_response_complete()  # type: ignore[misc]

    def shutdown(self) -> None:
        """End with the server, but for a client whose request is on its way: closing resets it."""
        if self.cycle is None or self._head:
            self._closes_at = time.monotonic() + _FIRST_S
        else:
            super().shutdown()  # type: ignore[misc]

    def send_400_response(self, _: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(ProblemKind.BAD_REQUEST, Refused.MALFORMED)

    def check(self, now: float) -> None:
        """Close it if it has taken too long."""
        limits = self.watch.limits
        if self._closes_at is not None and not self._is_working():
            if now > self._closes_at:
                self.transport.abort()
        elif self._is_stalled(now):
            self._count(Refused.ANSWER_SLOW)
            self.transport.abort()
        elif self._unsent[0] or self._is_working():
            self.since = now
        elif not self._is_in_head() and now - self.since > _LINGER_S:
            self.transport.abort()  # the answer is there, and the rest of the request is not
        elif self._head and now - self.since > limits.header_s:
            self._refuse(ProblemKind.REQUEST_TIMEOUT, Refused.HEADERS_SLOW)
        elif now - self.since > limits.idle_s:
            self.transport.close()

    def _feed(self, piece: bytes) -> None:
        limits = self.watch.limits
        if self._is_in_head():
            if not self._head:
                self.since, self._has_line = time.monotonic(), False
            self._head += len(piece)
            self._has_line = self._has_line or b"\n" in piece.lstrip()
        super().data_received(piece)  # type: ignore[misc]
        if self._closes_at is not None and self._is_working():
            self.cycle.keep_alive = False
        if not self._is_in_head():
            self._head = 0
        elif self._head > limits.header_bytes and self._has_line:
            self._refuse(ProblemKind.HEADERS_LARGE, Refused.HEADERS_LARGE)
        elif self._head > limits.header_bytes or (
            self._head > limits.address_bytes + _PIECE and not self._has_line
        ):
            self._refuse(ProblemKind.ADDRESS_LONG, Refused.ADDRESS_LONG)

    def _is_in_head(self) -> bool:
        """Whether the parser waits for headers, or for the rest of them."""
        raise NotImplementedError

    def _is_working(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_stalled(self, now: float) -> bool:
        size, marked = self.transport.get_write_buffer_size(), self._unsent[0]
        enough = min(marked, max(_LEAST_TAKEN, marked // 4))
        if not size or not marked or marked - size >= enough:
            self._unsent = size, now
        else:
            self._unsent = max(size, marked), self._unsent[1]
        return size > 0 and now - self._unsent[1] > self.watch.limits.answer_s

    def _count(self, reason: Refused) -> None:
        if "admission" in self.app_state:
            self.app_state["admission"].refuse(reason)

    def _refuse(self, kind: ProblemKind, reason: Refused) -> None:
        """Answer, and go on reading for a while: who closes at once takes the answer back."""
        if self._lingers or self.transport.is_closing():
            return
        self._count(reason)
        if self._is_working():
            self.transport.abort()  # an answer here would be taken for that of another request
            return
        self._lingers, self._closes_at = True, time.monotonic() + _LINGER_S
        self.transport.write(_answer(kind))
        if self.transport.can_write_eof():
            self.transport.write_eof()


class BoundedH11(_Bounded, H11Protocol):
    """The parser in Python."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Its own limit comes second: it has one answer for all that is too much.
        self.conn = h11.Connection(h11.SERVER, 2 * self.watch.limits.header_bytes + _PIECE)

    def _is_in_head(self) -> bool:
        return self.conn.their_state is h11.IDLE


class BoundedHttpTools(_Bounded, HttpToolsProtocol):
    """The parser in C."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._header_bytes = 0
        self._unanswered: deque[Any] = deque()  #: cycles, of which the first is worked on
        self._silent = 0  #: bytes within a body that are no part of it, such as trailers

    def _is_in_head(self) -> bool:
        return self._in_head

    def _feed(self, piece: bytes) -> None:
        self._silent += 0 if self._in_head else len(piece)
        super()._feed(piece)
        if self._silent > self.watch.limits.header_bytes:
            self._refuse(ProblemKind.HEADERS_LARGE, Refused.HEADERS_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._in_head, self._header_bytes, self._silent = True, 0, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, which may come behind a body, too."""
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > 2 * self.watch.limits.header_bytes:
            raise ValueError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to work on it, unless too many wait for it on the same connection."""
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise ValueError("too many pipelined requests")
        self._in_head, self._silent, self._head = False, 0, 0
        super().on_headers_complete()
        self._unanswered.append(self.cycle)

    def on_response_complete(self) -> None:
        """Go on to the next request of a pipeline."""
        self._unanswered.popleft()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is worked on: uvicorn tells the last of a pipeline alone."""
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._silent = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._in_head, self._silent = True, 0
        super().on_message_complete()


def bounded_protocol(
    limits: ConnectionLimits, parser: type[asyncio.Protocol] | None = None
) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol for HTTP with these limits; without a *parser* its own choice."""
    is_h11 = (parser or AutoHTTPProtocol) is H11Protocol
    chosen: type[_Bounded] = BoundedH11 if is_h11 else BoundedHttpTools
    bound: Any = type(chosen.__name__, (chosen,), {"watch": Watch(limits)})
    protocol: type[asyncio.Protocol] = bound
    return protocol


def affordable(limits: ConnectionLimits) -> ConnectionLimits:
    """Raise the process's limit of open files for *limits*, or lower them to what it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    return replace(limits, connections=max(soft // 2, soft - _OTHER_FILES))


def write_no_line_a_request() -> None:
    """Keep uvicorn from a line for each request that is no HTTP; the admission counts them."""
    logging.getLogger("uvicorn.error").addFilter(lambda line: line.msg not in _ONE_A_REQUEST)


def _answer(kind: ProblemKind) -> bytes:
    request_id = uuid4().hex
    scope = {"type": "http", "headers": [], "state": {"request_id": request_id}}
    retry = {"Retry-After": "2"} if kind is ProblemKind.OVERLOADED else {}
    answer = render(Request(scope), Problem(kind, headers={"Connection": "close", **retry}))
    add_headers(MutableHeaders(raw=answer.raw_headers), request_id)
    status = f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}\r\n".encode()
    lines = [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
    return b"".join([status, *lines, b"\r\n", answer.body])
