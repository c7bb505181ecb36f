"""OpenTelemetry: spans over OTLP/HTTP, stored as events; answers and errors are OTLP's own."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from pydantic import Field

from ett_service.api.answers import Answer
from ett_service.api.deps import State, WritingKey, only_declared_parameters
from ett_service.api.problems import Problem, problem_of
from ett_service.api.record.events import count_verdicts, large_body
from ett_service.ingest.otlp.receive import JSON, PROTOBUF, Receipt, accept, decode, media_type
from ett_service.ingest.refusals import Refused, UnsupportedMedia
from ett_service.storage.engine.errors import StorageUnavailable

_MOST_CODES = 10


class PartialSuccess(Answer):
    """What was rejected of a request, the rest of which is stored."""

    rejected_spans: str = Field(alias="rejectedSpans", description="How many, as a decimal.")
    error_message: str = Field(
        alias="errorMessage", description="How many for each reason: `no_job`, or a code of events."
    )


class TraceAnswer(Answer):
    """The result of an export. All spans that it does not count are on stable storage."""

    partial_success: PartialSuccess | None = Field(None, alias="partialSuccess")


class Status(Answer):
    """Why nothing of a request was taken."""

    message: str


class OtlpRoute(APIRoute):
    """A route whose errors are the ``Status`` that OTLP exporters read, in the body's format."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Answer what is raised."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except (Problem, Refused, RequestValidationError, StorageUnavailable) as error:
                return _refused(request, problem_of(error))

        return answer


def _refused(request: Request, problem: Problem) -> Response:
    message = problem.detail or problem.kind.title
    try:
        media = media_type(request.headers.get("content-type", ""))
    except UnsupportedMedia:
        media = PROTOBUF
    body = _json({"message": message}) if media == JSON else _status(message.encode())
    return Response(body, problem.kind.status, problem.headers, media)


def _status(message: bytes) -> bytes:
    """Write google.rpc.Status with nothing but its message, which is field 2."""
    length, rest = bytearray(), len(message)
    while rest > 0x7F:  # noqa: PLR2004
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    return b"\x12" + bytes((*length, rest)) + message


def _json(content: Mapping[str, object]) -> bytes:
    return json.dumps(content).encode()


router = APIRouter(
    tags=["events"],
    dependencies=[Depends(only_declared_parameters)],
    route_class=OtlpRoute,
)

_BINARY = {"schema": {"type": "string", "format": "binary"}, "example": ""}


def _declared(*statuses: int) -> dict[int | str, dict[str, Any]]:
    example = {"message": "A request may have at most 8388608 bytes."}
    schema = {"$ref": "#/components/schemas/Status"}
    content = {JSON: {"schema": schema, "example": example}, PROTOBUF: _BINARY}
    return {status: {"model": Status, "content": content} for status in statuses}


@router.post(
    "/v1/traces",
    operation_id="accept_traces",
    response_model=TraceAnswer,
    responses={
        200: {"content": {PROTOBUF: _BINARY}},
        **_declared(400, 401, 403, 408, 413, 415, 422, 429, 503),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {PROTOBUF: _BINARY, JSON: {"schema": {"type": "object"}}},
        }
    },
)
async def accept_traces(request: Request, key: WritingKey, state: State) -> Response:
    """Accept OpenTelemetry spans as OTLP/HTTP, in protobuf or JSON, and store them as events.

    Point an exporter here with `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, and give it the key as
    `OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20<key>`. The body may be compressed with gzip.
    A span that is sent again is stored once. Rejected spans are counted in `partialSuccess` and do
    not affect the others. Answers and errors are OTLP's own, in the format of the request.
    """
    async with large_body(request, state, key) as large:
        now_us = state.now_us()
        traces = await large.decoded(
            lambda body, limits: decode(body, request.headers, now_us=now_us, limits=limits)
        )
        write = partial(accept, request=traces, project_id=key.project_id, now_us=now_us)
        receipt = await asyncio.wrap_future(state.store.submit(write))
    count_verdicts(request, state, receipt.verdicts, now_us=now_us)
    rejected = sum(receipt.rejected.values())
    request.state.own.count_spans(traces.count, unmapped=traces.unmapped, rejected=rejected)
    return _answer(receipt, media_type(request.headers["content-type"]))


def _answer(receipt: Receipt, media: str) -> Response:
    answer = ExportTraceServiceResponse()
    rejected = sum(receipt.rejected.values())
    message = _message(receipt.rejected)
    if media == JSON:
        partial_success = {"rejectedSpans": str(rejected), "errorMessage": message}
        return Response(
            _json({"partialSuccess": partial_success} if rejected else {}), 200, {}, JSON
        )
    if rejected:
        answer.partial_success.rejected_spans = rejected
        answer.partial_success.error_message = message
    return Response(answer.SerializeToString(), 200, {}, PROTOBUF)


def _message(rejected: Mapping[str, int]) -> str:
    ordered = sorted(rejected.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{code}: {count}" for code, count in ordered[:_MOST_CODES])
