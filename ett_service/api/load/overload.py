"""Lets requests in, and refuses those for which there is no room."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ett_service.api.load.admission import UNKNOWN, Admission, Pool, Refused
from ett_service.api.load.connections import require_small_head
from ett_service.api.problems import Problem, ProblemKind, render

ALWAYS_IN = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""What answers however busy the process is, and takes nothing from the work."""

OWN_POOL = frozenset({"/v1/events", "/v1/traces"})
"""Routes that read large bodies: they are let in by the route, once the body is there."""

READ_COST = 1 << 20
"""Bytes that a read costs until its route says more: what most answers take to make."""

_MOST_OWNERS = 4096
_SMALL_BODY = 64 << 10


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
    try:
        require_small_head(scope, scope["state"]["app"].connections)
    except Problem as problem:
        is_long = problem.kind is ProblemKind.ADDRESS_LONG
        scope["state"]["admission"].refuse(
            Refused.ADDRESS_LONG if is_long else Refused.HEADERS_LARGE
        )
        raise


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
