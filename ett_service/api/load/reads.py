"""What reads may hold and for how long: one by one, of one project, and all together.

A route that reads much says how large its answer may become before it reads, and takes so much room
among all reads. A read ends early when its client has gone, and when the server stops.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock
from typing import Annotated

from anyio import from_thread
from fastapi import Depends, Request
from sqlalchemy import Connection
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ett_service.api.load.admission import Place
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import interrupt

_PIECE = 64 << 10


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
