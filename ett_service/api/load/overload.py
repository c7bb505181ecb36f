"""Lets requests in, refuses those for which there is no room, and bounds what reads may hold.

A route that reads much says how large its answer may become before it reads, and takes so much
room among all reads. A read ends early when its client has gone, and when the server stops. Large
answers are held compressed while a client takes them.
"""

import asyncio
import zlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from threading import Event, Lock
from typing import Annotated

from anyio import from_thread
from fastapi import Depends
from sqlalchemy import Connection
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ett_service.api.load.admission import UNKNOWN, Admission, Place, Pool, Refused
from ett_service.api.problems import Problem, ProblemKind, render
from ett_service.api.state import ConnectionLimits
from ett_service.storage.engine.driver import interrupt
from ett_service.storage.engine.errors import StorageUnavailable

ALWAYS_IN = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""What answers however busy the process is, and takes nothing from the work."""

OWN_POOL = frozenset({"/v1/events", "/v1/traces"})
"""Routes that read large bodies: they are let in by the route, once the body is there."""

READ_COST = 1 << 20
"""Bytes that a read costs until its route says more: what most answers take to make."""

_MOST_OWNERS = 4096
_SMALL_BODY = 64 << 10
_PIECE = 64 << 10  #: of an answer, sent at a time


class Owners:
    """The keys that were valid lately, by a digest of what requests carry."""

    def __init__(self) -> None:
        self._prefixes: OrderedDict[int, str] = OrderedDict()

    def of(self, digest: int) -> str:
        """Return the public part of the key, or ``UNKNOWN``."""
        return self._prefixes.get(digest, UNKNOWN)

    def remember(self, digest: int, prefix: str) -> None:
        """Take note of a key that was found."""
        self._prefixes[digest] = prefix
        self._prefixes.move_to_end(digest)
        if len(self._prefixes) > _MOST_OWNERS:
            self._prefixes.popitem(last=False)


class Inbox:
    """What a client sends; what is taken in early is given to whoever reads later."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: deque[Message] = deque()

    async def __call__(self) -> Message:
        """Return the next message."""
        return self._messages.popleft() if self._messages else await self._receive()

    async def take_small_body(self) -> None:
        """Wait for a body, up to the size of a form: who sends slowly must not hold a place."""
        size = 0
        async for message in self._arriving():
            size += len(message.get("body", b""))
            if not message.get("more_body") or size >= _SMALL_BODY:
                return

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        async for message in self._arriving():
            if message["type"] == "http.disconnect":
                return
            if message.get("more_body"):
                await asyncio.Event().wait()  # what has not arrived stays where it is

    async def _arriving(self) -> AsyncIterator[Message]:
        while True:
            message = await self._receive()
            self._messages.append(message)
            yield message


class Admitted:
    """ASGI middleware. A request holds its place in ``request.state.place`` until its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._owners = Owners()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        digest = _digest(scope)
        owner = self._owners.of(digest)
        inbox = Inbox(receive)
        try:
            _require_small_head(scope)
            await self._serve(scope, inbox, send, owner)
        except Problem as problem:
            scope["state"]["is_refused"] = True
            await render(Request(scope), problem)(scope, inbox, send)
        except ClientDisconnect:
            scope["state"]["is_refused"] = True
        if "is_refused" in scope["state"] and owner != UNKNOWN:
            scope["state"]["key_prefix"] = owner
        if (prefix := scope["state"].get("key_prefix")) is not None:
            self._owners.remember(digest, prefix)

    async def _serve(self, scope: Scope, inbox: Inbox, send: Send, owner: str) -> None:
        async with AsyncExitStack() as stack:
            pool = _pool(scope)
            if pool is not None:
                await _small_body(scope, inbox)
                place = await stack.enter_async_context(pool.working(owner, READ_COST, inbox.gone))
                scope["state"]["place"] = place

            async def send_on(message: Message) -> None:
                if _is_stream(message):
                    await stack.aclose()  # it lasts, and does little
                await send(message)

            await self.app(scope, inbox, send_on)


def _require_small_head(scope: Scope) -> None:
    """Refuse a request whose address or headers are too large.

    Raises:
        Problem: 414 or 431.
    """
    limits: ConnectionLimits = scope["state"]["app"].connections
    headers = scope["headers"]
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > limits.address_bytes:
        raise _too_large(scope, ProblemKind.ADDRESS_LONG, limits.address_bytes)
    if len(headers) > limits.headers:
        raise _too_large(scope, ProblemKind.HEADERS_LARGE, limits.headers)
    if sum(len(name) + len(value) for name, value in headers) > limits.header_bytes:
        raise _too_large(scope, ProblemKind.HEADERS_LARGE, limits.header_bytes)


def _too_large(scope: Scope, kind: ProblemKind, limit: int) -> Problem:
    is_long = kind is ProblemKind.ADDRESS_LONG
    scope["state"]["admission"].refuse(Refused.ADDRESS_LONG if is_long else Refused.HEADERS_LARGE)
    return Problem(kind, headers={"Connection": "close"}, limit=limit)


async def _small_body(scope: Scope, inbox: Inbox) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        try:
            async with asyncio.timeout(scope["state"]["app"].body_deadline_s):
                await inbox.take_small_body()
        except TimeoutError as error:
            scope["state"]["admission"].refuse(Refused.BODY_SLOW)
            raise Problem(ProblemKind.REQUEST_TIMEOUT, headers={"Connection": "close"}) from error


def _pool(scope: Scope) -> Pool | None:
    admission: Admission = scope["state"]["admission"]
    if scope["path"] in ALWAYS_IN or scope["path"] in OWN_POOL:
        return None
    return admission.scrapes if scope["path"] == "/metrics" else admission.reads


def _digest(scope: Scope) -> int:
    headers = Headers(scope=scope)
    return hash((headers.get("authorization"), headers.get("cookie")))


def _is_stream(message: Message) -> bool:
    if message["type"] != "http.response.start":
        return False
    media = Headers(raw=message["headers"]).get("content-type", "")
    return media.startswith("text/event-stream")


class Read:
    """One request, as far as it reads: what it has taken, and whether anybody waits for it."""

    def __init__(self, place: Place | None, stopping: Event) -> None:
        self._place = place
        self._stopping = stopping
        self._gone = False
        self._running: list[Connection] = []
        self._lock = Lock()

    def take(self, size: int) -> None:
        """Say, in a thread, how many bytes the answer may become.

        Raises:
            Problem: 429 or 503, where too much is read already.
        """
        if self._place is not None:
            from_thread.run_sync(self._place.enlarge, size)

    def check(self) -> None:
        """Go on only while somebody waits.

        Raises:
            ClientDisconnect: The client has gone.
            StorageUnavailable: The server stops.
        """
        if self._gone:
            raise ClientDisconnect
        if self._stopping.is_set():
            raise StorageUnavailable("The server stops.")

    @contextmanager
    def interruptible(self, conn: Connection) -> Iterator[None]:
        """Have the statements of *conn* end when the read does.

        Raises:
            ClientDisconnect: The client has gone.
        """
        with self._lock:
            self._running.append(conn)
        try:
            yield
        except Exception:  # whatever it is called by whom it ended
            if self._gone:
                raise ClientDisconnect from None
            raise
        finally:
            with self._lock:
                self._running.remove(conn)

    def abandon(self) -> None:
        """End it: nobody waits for the answer."""
        self._gone = True
        with self._lock:
            for conn in self._running:
                interrupt(conn)


class Reads:
    """ASGI middleware: every request has a ``Read``, which ends with it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        read = Read(scope["state"].get("place"), scope["state"]["app"].stopping)
        scope["state"]["read"] = read
        if scope["method"] == "GET":
            await self._watched(scope, receive, in_pieces(send), read)
        else:
            await self.app(scope, receive, in_pieces(send))

    async def _watched(self, scope: Scope, receive: Receive, send: Send, read: Read) -> None:
        """Serve a request without a body, and see at once when its client goes."""
        began, gone = False, asyncio.Event()

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()
            await asyncio.to_thread(read.abandon)

        async def nothing_more() -> Message:
            nonlocal began
            if not began:
                began = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        watching = asyncio.ensure_future(watch())
        try:
            await self.app(scope, nothing_more, send)
        except BaseException:  # raised again: the server ends its tasks when its time is up
            read.abandon()
            raise
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


def in_pieces(send: Send) -> Send:
    """Return a *send* that waits for the client after each small piece.

    A large one would lie in the buffer of a connection that nobody reads.
    """

    async def send_pieces(message: Message) -> None:
        body = message.get("body", b"")
        for start in range(0, max(len(body), 1), _PIECE):
            rest = start + _PIECE < len(body)
            piece = message
            if start or rest:
                more = rest or message.get("more_body", False)
                piece = {**message, "body": body[start : start + _PIECE], "more_body": more}
            await send(piece)

    return send_pieces


async def _read(request: Request) -> Read:  # a plain function would take a thread
    read: Read = request.state.read
    return read


ReadTicket = Annotated[Read, Depends(_read)]


class Packed:
    """A body that is made piece by piece and held compressed, at a tenth of its size.

    So a large answer is read from one state of the database, and while a slow client takes it,
    neither a connection nor much memory is held.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        packing = zlib.compressobj(1)
        self._length = 0
        self._packed: list[bytes] = []
        for piece in pieces:
            self._length += len(piece)
            if packed := packing.compress(piece):
                self._packed.append(packed)
        self._packed.append(packing.flush())

    def response(self, media_type: str, headers: Mapping[str, str]) -> StreamingResponse:
        """Answer with it, once."""
        length = {"Content-Length": str(self._length)}
        return StreamingResponse(
            self._unpacked(), headers={**headers, **length}, media_type=media_type
        )

    async def _unpacked(self) -> AsyncIterator[bytes]:
        unpacking = zlib.decompressobj()
        self._packed.reverse()
        while self._packed:
            left = self._packed.pop()
            while left:
                yield unpacking.decompress(left, _PIECE)
                left = unpacking.unconsumed_tail
        yield unpacking.flush()
