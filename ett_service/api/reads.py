"""What reads may hold and for how long: one by one, of one project, and all together.

A route that reads much says how large its answer may become before it reads. A read ends early
when its client has gone, when the client takes nothing of the answer for a while, and when the
server stops.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Connection
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ett_service.api.problems import RETRY_AFTER_S, Problem, ProblemKind
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import interrupt

_MOST_BYTES = 128 << 20
_MOST_OF_ONE = _MOST_BYTES // 2

_PIECE = 64 << 10

_PATIENCE_S = 30.0
"""So long a client may take nothing of its answer."""


class ReadBudget:
    """How many bytes all answers that are read at once may come to; one project gets half."""

    def __init__(self, most: int = _MOST_BYTES, most_of_one: int = _MOST_OF_ONE) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._taken: Counter[str] = Counter()
        self._lock = Lock()

    def take(self, project: str, size: int) -> bool:
        """Take *size* bytes for a *project*, if they are left or nobody has taken any."""
        with self._lock:
            of_one = self._taken[project]
            if of_one and of_one + size > self._most_of_one:
                return False
            if of_one < (taken := self._taken.total()) and taken + size > self._most:
                return False
            self._taken[project] += size
            return True

    def give_back(self, project: str, size: int) -> None:
        """Give back what was taken."""
        with self._lock:
            self._taken[project] -= size
            if not self._taken[project]:
                del self._taken[project]


class Read:
    """One request, as far as it reads: what it has taken, and whether anybody waits for it."""

    def __init__(self, budget: ReadBudget, stopping: Event) -> None:
        self.project = ""  #: of who asks
        self._budget = budget
        self._stopping = stopping
        self._gone = False
        self._taken: list[tuple[str, int]] = []
        self._running: list[Connection] = []
        self._lock = Lock()

    def take(self, size: int) -> None:
        """Say how many bytes the answer may become.

        Raises:
            Problem: 429, where too much is read already.
        """
        if not self._budget.take(self.project, size):
            raise Problem(
                ProblemKind.TOO_MANY_READS,
                "Ask for less, or for one answer after the other.",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )
        self._taken.append((self.project, size))

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

    def close(self) -> None:
        """Give back what was taken."""
        while self._taken:
            self._budget.give_back(*self._taken.pop())


class Reads:
    """ASGI middleware: every request has a ``Read``, which ends with it."""

    def __init__(self, app: ASGIApp, patience_s: float = _PATIENCE_S) -> None:
        self.app = app
        self._patience_s = patience_s
        self._budget = ReadBudget()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        read = Read(self._budget, scope["state"]["app"].stopping)
        scope["state"]["read"] = read
        paced = _Paced(send, self._patience_s, read)
        try:
            if scope["method"] == "GET":
                await self._watched(scope, receive, paced.send, read)
            else:
                await self.app(scope, receive, paced.send)
        finally:
            read.close()

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


class _Paced:
    """Sends in small pieces, each of which the client must make room for in time.

    A large piece would lie in the buffer of a connection that nobody reads.
    """

    def __init__(self, send: Send, patience_s: float, read: Read) -> None:
        self._send = send
        self._patience_s = patience_s
        self._read = read
        self._given_up = False

    async def send(self, message: Message) -> None:
        """Send one message; after a client was too slow, nothing."""
        body = message.get("body", b"")
        for start in range(0, max(len(body), 1), _PIECE):
            if self._given_up:
                return
            rest = start + _PIECE < len(body)
            piece = message
            if start or rest:
                more = rest or message.get("more_body", False)
                piece = {**message, "body": body[start : start + _PIECE], "more_body": more}
            await self._send_piece(piece)

    async def _send_piece(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._send(message)
        except TimeoutError:
            # The answer stays unfinished, so the server closes the connection.
            self._given_up = True
            self._read.abandon()


async def _read(request: Request) -> Read:  # a plain function would take a thread
    read: Read = request.state.read
    return read


ReadTicket = Annotated[Read, Depends(_read)]
