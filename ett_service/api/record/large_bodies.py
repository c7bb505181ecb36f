"""Large bodies: counted while they arrive, let in once they are there, decoded a few at once."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from anyio import to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from ett_service.api.bodies import read_body
from ett_service.api.load.admission import Admission, Gone, Place, Refused
from ett_service.api.problems import Problem
from ett_service.api.state import AppState
from ett_service.core.errors import EttError
from ett_service.ingest.refusals import BodyTooLarge
from ett_service.ingest.wire import Limits
from ett_service.storage.record.keys import Key

T = TypeVar("T")

_INFLATES = 16
"""How much larger a compressed body is expected to be; what is larger waits for more room."""

_LARGE = 2 << 20
"""Bytes, inflated, from which a body is worked on beside the others: twice what clients send."""

_REST_OF_A_REQUEST = 4 << 10

_AT_ONCE = 8 << 10
"""Bytes, inflated, up to which a body is decoded within a millisecond."""


@dataclass(frozen=True, slots=True)
class LargeBody:
    """A body that may be worked on."""

    request: Request
    body: bytes
    place: Place
    limits: Limits

    async def decoded(self, decode: Callable[[bytes, Limits], T]) -> T:
        """Return what *decode* makes of it, in a thread.

        Raises:
            Refused: What it raises.
            Problem: 429 or 503, if it is larger than expected, and there is no room for that.
            ClientDisconnect: The sender has gone.
        """
        most = self.limits.max_inflated_bytes
        if self.place.cost < most:
            try:
                return await self._decoded(decode, self.place.cost)
            except BodyTooLarge as error:
                if error.what != "inflated bytes":
                    raise
            await self.place.move(self.admission.large_writes, most)
        return await self._decoded(decode, most)

    async def _decoded(self, decode: Callable[[bytes, Limits], T], most: int) -> T:
        admission = self.admission
        is_large = self.place.pool is admission.large_writes
        limiter = admission.large_decoding if is_large else admission.decoding
        limits = replace(self.limits, max_inflated_bytes=most)
        if self.place.cost <= _AT_ONCE:
            return decode(self.body, limits)  # a thread would take longer than the work
        try:
            decoded = await to_thread.run_sync(decode, self.body, limits, limiter=limiter)
        except EttError as error:
            raise without_frames(error) from None
        await require_sender(self.request)
        return decoded

    @property
    def admission(self) -> Admission:
        """What lets it in."""
        admission: Admission = self.request.state.admission
        return admission


@asynccontextmanager
async def large_body(request: Request, state: AppState, key: Key) -> AsyncIterator[LargeBody]:
    """Read the body of *request*, and let it in: a slow sender holds bytes, but no place.

    Raises:
        BodyTooLarge: As soon as it is.
        Problem: 408, 429 or 503.
        ClientDisconnect: The sender has gone.
    """
    admission: Admission = request.state.admission
    most = state.limits.max_body_bytes
    try:
        with admission.bodies.held(key.prefix) as count:
            deadline_s = state.body_deadline_s
            body = await read_body(request, most=most, deadline_s=deadline_s, count=count)
            cost = _cost(request, body, state.limits)
            pool = admission.large_writes if cost > _LARGE else admission.writes
            async with pool.working(key.prefix, cost, _gone(request)) as place:
                await require_sender(request)
                yield LargeBody(request, body, place, state.limits)
    except (Problem, ClientDisconnect):
        request.state.is_refused = True
        raise


def without_frames(error: EttError) -> EttError:
    """Let go of what the frames that raised *error* hold: all of an inflated body.

    Else it would lie in memory until the answer is sent, while the next body is inflated.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


async def require_sender(request: Request) -> None:
    """Drop the work of a sender that has gone.

    Raises:
        ClientDisconnect: It has.
    """
    if _has_gone(request.receive):
        request.state.admission.refuse(Refused.SENDER_GONE)
        raise ClientDisconnect


def _has_gone(receive: Receive) -> bool:
    """Take one step towards the next message, and leave it where it would have to be waited for.

    ``Request.is_disconnected`` cancels a scope for that, which takes as long as to read an event.
    """
    step = _next(receive)
    try:
        step.send(None)
    except StopIteration as arrived:
        return bool(arrived.value["type"] == "http.disconnect")
    step.close()
    return False


async def _next(receive: Receive) -> Message:
    return await receive()


def _gone(request: Request) -> Gone:
    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return gone


def _cost(request: Request, body: bytes, limits: Limits) -> int:
    is_plain = request.headers.get("content-encoding", "identity").strip().lower() == "identity"
    size = len(body) if is_plain else min(len(body) * _INFLATES, limits.max_inflated_bytes)
    return size + _REST_OF_A_REQUEST
