"""Where events come in."""

import asyncio
import logging
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, Request
from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from ett_service.api.answers import Answer
from ett_service.api.body import read_body
from ett_service.api.deps import AppParts, WritingKey, only_declared_parameters
from ett_service.api.problems import Fault, Kind, Problem, declared, refusal_members
from ett_service.ingest.accept import Verdicts, accept
from ett_service.ingest.decode import decode
from ett_service.ingest.refusals import Code

_log = logging.getLogger(__name__)

router = APIRouter(tags=["events"], dependencies=[Depends(only_declared_parameters)])


class BatchAnswer(Answer):
    """What became of a batch. ``accepted`` and ``duplicate`` are on stable storage."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "batch_id": "01K5",
                "store_epoch": "6f1c2a",
                "accepted": 97,
                "duplicate": 2,
                "rejected": 1,
                "errors": [
                    {
                        "index": 41,
                        "id": "01K5-42",
                        "code": "timestamp_out_of_range",
                        "pointer": "/events/41/at",
                    }
                ],
            }
        }
    )

    batch_id: str
    store_epoch: str = Field(description="Changes when a database takes the place of another.")
    accepted: int
    duplicate: int
    rejected: int
    errors: list[Fault] = Field(
        description="What was refused, in the order of the events. The codes:\n\n"
        + "\n".join(f"- `{code}`: {code.sentence}" for code in Code)
    )


_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/EventBatch"},
                "example": {
                    "batch_id": "01K5",
                    "events": [
                        {
                            "type": "progress",
                            "job": "llm-70b",
                            "at": "2026-03-01T08:10:00Z",
                            "step": 120,
                        }
                    ],
                },
            },
            "application/x-ndjson": {
                "schema": {"$ref": "#/components/schemas/Event"},
                "example": '{"type":"heartbeat","job":"llm-70b","at":"2026-03-01T08:10:00Z"}\n',
            },
        },
    },
}


@router.post(
    "/v1/events",
    operation_id="accept_events",
    responses=declared(400, 401, 403, 408, 413, 415, 422, 503),
    openapi_extra=_BODY,
)
async def accept_events(request: Request, key: WritingKey, parts: AppParts) -> BatchAnswer:
    """Take events in. What is `accepted` or `duplicate` is committed before the answer begins.

    The body may be compressed: `Content-Encoding: gzip` or `zstd`. As `application/x-ndjson` it
    is one event a line, and the headers `ETT-Batch-Id`, `ETT-Sent-At`, `ETT-Producer` and
    `ETT-History` say what stands around them. The good events of a batch stand whatever is wrong
    with others; if all are refused, or the batch itself, the answer is 422.
    """
    body = await read_body(
        request, most=parts.limits.max_body_bytes, deadline_s=parts.body_deadline_s
    )
    now_us = parts.now_us()
    # Reading a large batch takes a while, and the event loop serves others meanwhile.
    batch = await run_in_threadpool(
        decode, body, request.headers, now_us=now_us, limits=parts.limits
    )
    write = partial(accept, batch=batch, project_id=key.project_id, now_us=now_us)
    verdicts = await asyncio.wrap_future(parts.store.submit(write))
    if verdicts.marked and parts.worker is not None:
        parts.worker.wake()
    request.state.own.count_events(
        verdicts.accepted_at,
        duplicate=verdicts.duplicate,
        rejected=[error.code for error in verdicts.errors],
        now_us=now_us,
        history=batch.history,
    )
    if batch.dropped:
        said = {"event": "sender_dropped", "dropped": dict(batch.dropped)}
        _log.warning("A sender had to drop events of its own.", extra=said)
    answer = _members(verdicts, request.state.store_epoch)
    if verdicts.rejected and not verdicts.accepted and not verdicts.duplicate:
        raise Problem(Kind.VALIDATION_FAILED, "No event of the batch stands.", **answer)
    return BatchAnswer(**answer)


def _members(verdicts: Verdicts, store_epoch: str) -> dict[str, Any]:
    return {
        "batch_id": verdicts.batch_id,
        "store_epoch": store_epoch,
        "accepted": verdicts.accepted,
        "duplicate": verdicts.duplicate,
        "rejected": verdicts.rejected,
        "errors": [refusal_members(error) for error in verdicts.errors],
    }
