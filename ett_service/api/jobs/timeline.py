"""A job's life in detail: time by stage, and every rank's spans as a picture."""

from typing import Any

import msgspec
from fastapi import APIRouter, Depends
from pydantic import ConfigDict, Field
from starlette.responses import Response

from ett_service.api.answers import Answer, Instant, Seconds
from ett_service.api.deps import Job, ProjectId, Reader, only_declared_parameters
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.jobs.listing import known_ledger
from ett_service.api.jobs.trace import trace
from ett_service.api.problems import declared
from ett_service.api.rendering import maybe_seconds, seconds
from ett_service.core.intervals import rfc3339
from ett_service.core.ledger.stages import StageTime, milestones, rank_spans, stage_times
from ett_service.core.words import Phase
from ett_service.storage.jobs import ledgers
from ett_service.storage.record import events as stored_events

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)

_STAGE: dict[str, Any] = {
    "number": 0,
    "phase": "launcher_init",
    "stage": "process_group_init",
    "spans": 1,
    "inclusive_seconds": 41.5,
    "exclusive_seconds": 41.5,
    "skew_seconds": 3.25,
}


class StageAnswer(Answer):
    """What an attempt spent on a phase, or on a stage of it."""

    number: int = Field(description="Of the attempt.")
    phase: Phase
    stage: str | None = Field(description="Null for the phase as a whole.")
    spans: int
    inclusive_seconds: Seconds
    exclusive_seconds: Seconds = Field(description="While no span inside it was open.")
    skew_seconds: Seconds | None = Field(
        description="Slowest rank minus the median; null with fewer than two ranks."
    )


class StagesAnswer(Answer):
    """Time by attempt, phase and stage."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "job": "llm-70b",
                "as_of": "2026-03-01T10:00:00.000000Z",
                "stages": [_STAGE],
            }
        }
    )

    job: str
    as_of: Instant
    stages: list[StageAnswer]


_TRACE: dict[str, Any] = {
    "description": "Chrome trace-event JSON; `ts` is microseconds since the Unix epoch.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["traceEvents"],
                "properties": {"traceEvents": {"type": "array", "items": {"type": "object"}}},
            },
            "example": {
                "displayTimeUnit": "ms",
                "traceEvents": [
                    {
                        "ph": "B",
                        "ts": 1772366400000000,
                        "pid": 0,
                        "tid": 0,
                        "name": "scheduling",
                        "cat": "scheduling",
                        "args": {"period": "scheduling", "attempt": 0},
                    },
                    {"ph": "E", "ts": 1772366460000000, "pid": 0, "tid": 0},
                ],
            },
        }
    },
}


@router.get(
    "/{job}/stages",
    operation_id="read_stages",
    response_model=StagesAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def read_stages(
    job: Job, conn: Reader, project_id: ProjectId, form: FormatParameter = "json"
) -> StagesAnswer | Response:
    """Tell what each attempt spent on each phase and stage, and how far its ranks lie apart."""
    ledger = known_ledger(conn, project_id, job)
    events = stored_events.events(conn, project_id, job)
    spans = rank_spans(events, stored_events.offsets(conn, project_id, job), ledger)
    answer = StagesAnswer(
        job=job,
        as_of=rfc3339(ledger.as_of),
        stages=[_stage(time) for time in stage_times(spans, ledger)],
    )
    return listed(form, answer, answer.stages, of=StageAnswer, name="stages")


@router.get(
    "/{job}/trace",
    operation_id="read_trace",
    response_class=Response,
    responses={200: _TRACE, **declared(401, 403, 404, 422, 503)},
)
def read_trace(job: Job, conn: Reader, project_id: ProjectId) -> Response:
    """Draw the job for Perfetto: the ledger, and what every rank of every attempt did.

    Process 0 is the ledger, a slice a segment. Every attempt is a process and every rank a
    thread of it; the slices of a thread nest.
    """
    ledger = known_ledger(conn, project_id, job)
    events = stored_events.events(conn, project_id, job)
    offsets = stored_events.offsets(conn, project_id, job)
    drawn = trace(
        job,
        ledger.attempts,
        ledgers.segments(conn, project_id, job),
        rank_spans(events, offsets, ledger),
        milestones(events, offsets, ledger),
    )
    body = msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": list(drawn)})
    return Response(body, media_type="application/json")


def _stage(time: StageTime) -> StageAnswer:
    return StageAnswer(
        number=time.number,
        phase=time.phase,
        stage=time.stage,
        spans=time.spans,
        inclusive_seconds=seconds(time.inclusive_us),
        exclusive_seconds=seconds(time.exclusive_us),
        skew_seconds=maybe_seconds(time.skew_us),
    )
