"""Events: bodies let in once they are there and decoded a few at once, batches accepted, lists."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import Field
from sqlalchemy import Connection
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from ett_service.api import pagination
from ett_service.api.answers import Answer, NextCursor
from ett_service.api.bodies import OF_RECORD, FormatParameter, as_file, as_files, read_body
from ett_service.api.deps import (
    Job,
    ProjectId,
    Reader,
    Reading,
    State,
    WritingKey,
    only_declared_parameters,
    sending_key,
)
from ett_service.api.load.admission import Admission, Gone, Place, Refused
from ett_service.api.pagination import UNREADABLE, event_columns
from ett_service.api.problems import Fault, Problem, ProblemKind, declared, refusal_members
from ett_service.api.state import AppState
from ett_service.core.errors import EttError
from ett_service.core.events import EVENT_TYPES, Event
from ett_service.core.intervals import rfc3339
from ett_service.core.words import Phase
from ett_service.ingest.accept import Verdicts, accept
from ett_service.ingest.decode import decode
from ett_service.ingest.refusals import BodyTooLarge, Code
from ett_service.ingest.wire import Limits
from ett_service.storage.engine.errors import DamagedEvent
from ett_service.storage.jobs import listing
from ett_service.storage.jobs.ledgers import finished
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.events import StoreEpoch
from ett_service.storage.record.keys import Key
from ett_service.storage.record.pruned import require_record

T = TypeVar("T")

_INFLATES = 16
"""How much larger a compressed body is expected to be; what is larger waits for more room."""

_LARGE = 2 << 20
"""Bytes, inflated, from which a body is worked on beside the others: twice what clients send."""

_REST_OF_A_REQUEST = 4 << 10

_AT_ONCE = 8 << 10
"""Bytes, inflated, up to which a body is decoded within a millisecond."""

_log = logging.getLogger(__name__)


class Sending(APIRoute):
    """A route whose endpoint takes a request, a key that may write, and the state.

    They are found here, as FastAPI takes as long to look for them as to read an event and store
    it; in the signature of the endpoint they describe the route.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        endpoint = self.endpoint

        async def answer(request: Request) -> Response:
            await only_declared_parameters(request)
            state: AppState = request.state.app
            response: Response = await endpoint(request, await sending_key(request, state), state)
            return response

        return answer


router = APIRouter(tags=["events"], route_class=Sending)
job_router = APIRouter(tags=["jobs"], dependencies=[Depends(only_declared_parameters)])

_PAGE_BYTES = 8 << 20

_INSTANTS = ("at", "start", "submitted_at")


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


class BatchAnswer(Answer):
    """The result of a batch. ``accepted`` and ``duplicate`` are on stable storage."""

    batch_id: str
    store_epoch: str = Field(
        description="Changes when another database, such as a backup, takes the place of this one: "
        "what was acknowledged before is then to be sent again."
    )
    accepted: int
    duplicate: int
    rejected: int
    errors: list[Fault] = Field(
        description="The rejected events, in the order of the batch. The codes:\n\n"
        + "\n".join(f"- `{code}`: {code.sentence}" for code in Code)
    )
    finished: dict[str, str | None] = Field(
        {},
        description="The jobs that were finished before an attempt in this batch began, each with "
        "the outcome of its `job_ended`, null where none stands; left out where there is none.",
    )


class EventPage(Answer):
    """A page of events, the earliest first."""

    job: str
    events: list[dict[str, Any]] = Field(
        description="Members as on the wire, instants in UTC, and `received_at`. An event whose "
        "content was damaged in the database has `type`, `id`, `at` and `received_at` alone, and "
        "`unreadable`, which says why."
    )
    next_cursor: NextCursor


_BATCH: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/EventBatch"}},
            "application/x-ndjson": {"schema": {"$ref": "#/components/schemas/Event"}},
        },
    },
}


_WORDS: Mapping[Code, Iterable[str]] = {
    Code.UNKNOWN_TYPE: EVENT_TYPES,
    Code.UNKNOWN_PHASE: Phase,
}


@router.post(
    "/v1/events",
    operation_id="accept_events",
    response_model=BatchAnswer,
    responses=declared(400, 401, 403, 408, 413, 415, 422, 429, 503),
    openapi_extra=_BATCH,
)
async def accept_events(request: Request, key: WritingKey, state: State) -> Response:
    """Accept a batch of events. The answer begins after what it counts is committed.

    The body may be compressed: `Content-Encoding: gzip` or `zstd`. As `application/x-ndjson` it
    has one event a line, and the headers `ETT-Batch-Id`, `ETT-Sent-At`, `ETT-Producer` and
    `ETT-History` carry what a JSON batch has beside its events. A rejected event does not affect
    the others. If all events are rejected, or the batch itself, the answer is 422.
    """
    async with large_body(request, state, key) as large:
        now_us = state.now_us()
        batch = await large.decoded(
            lambda body, limits: decode(body, request.headers, now_us=now_us, limits=limits)
        )
        epoch: StoreEpoch = request.state.store_epoch

        def write(conn: Connection) -> tuple[Verdicts, str, dict[str, str | None]]:
            verdicts = accept(conn, batch, project_id=key.project_id, now_us=now_us)
            begun = {each.job for each in batch.arrivals if each.type == "attempt_started"}
            before = finished(conn, key.project_id, begun) if begun else {}
            return verdicts, epoch.of(conn), before

        verdicts, store_epoch, before = await asyncio.wrap_future(state.store.submit(write))
    count_verdicts(request, state, verdicts, now_us=now_us, history=batch.history)
    if batch.dropped:
        request.state.own.count_drops(batch.dropped)
        dropped = {"event": "sender_dropped", "dropped": dict(batch.dropped)}
        _log.warning("A sender dropped events of its own.", extra=dropped)
    errors = [refusal_members(error) for error in verdicts.errors]
    answer = BatchAnswer.of(verdicts, store_epoch=store_epoch, errors=errors, finished=before)
    if verdicts.rejected and not verdicts.accepted and not verdicts.duplicate:
        members = {**answer.model_dump(exclude={"finished"}), "errors": errors}
        detail = _why_none(verdicts.errors[0].code)
        raise Problem(ProblemKind.VALIDATION_FAILED, detail, **members)
    body = answer.model_dump_json(exclude=None if before else {"finished"})
    return Response(body, media_type="application/json")


def _why_none(code: Code) -> str:
    """Return why no event of a batch was taken, of which the first was rejected by *code*."""
    words = f" It may be {', '.join(_WORDS[code])}." if code in _WORDS else ""
    return f"Every event was rejected. The first: {code.sentence}{words}"


def count_verdicts(
    request: Request, state: AppState, verdicts: Verdicts, *, now_us: int, history: bool = False
) -> None:
    """Count what became of events that a request sent, and wake the worker for their jobs."""
    if verdicts.marked and state.worker is not None:
        state.worker.wake()
    request.state.accepted_events = verdicts.accepted
    request.state.own.count_events(
        verdicts.accepted_at,
        duplicate=verdicts.duplicate,
        rejected=[error.code for error in verdicts.errors],
        now_us=now_us,
        history=history,
    )


@job_router.get(
    "/v1/jobs/{job}/events",
    operation_id="list_job_events",
    response_model=EventPage,
    responses=as_files(OF_RECORD, paged=True),
)
def list_job_events(
    job: Job,
    conn: Reader,
    project_id: ProjectId,
    reading: Reading,
    *,
    limit: Annotated[
        int, Query(ge=1, le=10_000, description="A page of large events ends before, at 8 MiB.")
    ] = 1000,
    cursor: pagination.Cursor = None,
    form: FormatParameter = "json",
) -> EventPage | Response:
    """List a job's events in the order of their instants."""
    after = None if cursor is None else pagination.read(cursor, pagination.BY_TIME)
    require_record(conn, JobKey(project_id, job))
    reading.take(min(_PAGE_BYTES, limit << 10))
    rows, more = listing.event_bodies(
        conn, project_id, job, limit=limit, after=after, most_bytes=_PAGE_BYTES
    )
    if not rows and not stored_events.job_exists(conn, project_id, job):
        raise Problem(ProblemKind.NOT_FOUND, "No such job.")
    next_cursor = pagination.write((rows[-1].at_us, rows[-1].id)) if more else None
    events = [{**_members(job, row), "received_at": rfc3339(row.received_us)} for row in rows]
    if form == "json":
        return EventPage(job=job, events=events, next_cursor=next_cursor)
    return as_file(form, event_columns(), events, name="events", next_cursor=next_cursor)


def _members(job: str, row: listing.EventRow) -> dict[str, Any]:
    """Write a stored event; of a damaged one that it is there, and what is wrong with it."""
    try:
        (event,) = stored_events.decoded(job, [(row.type, row.id, row.at_us, row.body)])
    except DamagedEvent as error:
        about = {"type": row.type, "id": row.id, "at": rfc3339(row.at_us)}
        return {**about, UNREADABLE: error.why}
    return wire_members(event)


def wire_members(event: Event) -> dict[str, Any]:
    """Write *event* with its members on the wire, without the empty ones."""
    members: dict[str, Any] = {"type": event.type}
    for field in fields(event):
        value = getattr(event, field.name)
        if value is None or value in ("", {}):
            continue
        members[field.name] = rfc3339(value) if field.name in _INSTANTS else value
    return members
