"""Middleware for every request: an id, safe headers, and one line in the access log."""

import logging
import re
import time
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}


class Access:
    """ASGI middleware. It keeps a request id of the sender that is a plain word."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, and log it when it is over."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status = 500
        began = time.perf_counter()

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                mark(MutableHeaders(scope=message), request_id)
            await send(message)

        try:
            await self.app(scope, receive, send_marked)
        finally:
            seconds = time.perf_counter() - began
            # The route rather than the path: a path holds names that a client made up.
            route = getattr(scope.get("route"), "path", None)
            scope["state"]["own"].count_request(scope["method"], route, status, seconds)
            _write_line(scope, request_id, route, status, seconds)


def mark(headers: MutableHeaders, request_id: str) -> None:
    """Add the request id and the safe headers."""
    headers["X-Request-Id"] = request_id
    for name, value in _SAFE_HEADERS.items():
        headers.setdefault(name, value)


def _request_id(scope: Scope) -> str:
    sent = Headers(scope=scope).get("x-request-id", "")
    return sent if _ACCEPTABLE_ID.fullmatch(sent) else uuid4().hex


def _write_line(
    scope: Scope, request_id: str, route: str | None, status: int, seconds: float
) -> None:
    log.info(
        "%s %s %d",
        scope["method"],
        route or "-",
        status,
        extra={
            "event": "request",
            "request_id": request_id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
            "key": scope["state"].get("key_prefix"),
        },
    )
