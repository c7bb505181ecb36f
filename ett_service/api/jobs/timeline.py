"""The timeline of a job: time by stage, and the spans of every rank as a trace."""

from typing import Any

import msgspec
from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.responses import Response

from ett_service.api.answers import Answer, Instant, Seconds
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import Job, ProjectId, Reader, only_declared_parameters
from ett_service.api.jobs.listing import ledger_of
from ett_service.api.jobs.trace import trace
from ett_service.api.problems import declared
from ett_service.core.ledger.stages import milestones, rank_spans, stage_times
from ett_service.core.words import Phase
from ett_service.storage.jobs import ledgers
from ett_service.storage.record import events as stored_events

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], dependencies=[Depends(only_declared_parameters)]
)


class StageAnswer(Answer):
    """The time of an attempt in a phase, or in a stage of it."""

    number: int = Field(description="The attempt's number.")
    phase: Phase
    stage: str | None = Field(description="Null for the phase as a whole.")
    spans: int
    inclusive_seconds: Seconds
    exclusive_seconds: Seconds = Field(description="The part in which no nested span was open.")
    skew_seconds: Seconds | None = Field(
        description="Slowest rank minus the median; null with fewer than two ranks."
    )


class StagesAnswer(Answer):
    """Time by attempt, phase and stage."""

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
            }
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
    """Return the time of each attempt by phase and stage, and the skew between its ranks."""
    ledger = ledger_of(conn, project_id, job)
    events = stored_events.events(conn, project_id, job)
    spans = rank_spans(events, stored_events.offsets(conn, project_id, job), ledger)
    answer = StagesAnswer.of(ledger, job=job, stages=list(stage_times(spans, ledger)))
    return listed(form, answer, answer.stages, of=StageAnswer, name="stages")


@router.get(
    "/{job}/trace",
    operation_id="read_trace",
    response_class=Response,
    responses={200: _TRACE, **declared(401, 403, 404, 422, 503)},
)
def read_trace(job: Job, conn: Reader, project_id: ProjectId) -> Response:
    """Return a trace for Perfetto: the ledger, and the spans of every rank of every attempt.

    Process 0 is the ledger, one slice a segment. Every attempt is a process and every rank one of
    its threads. The slices of a thread nest.
    """
    ledger = ledger_of(conn, project_id, job)
    events = stored_events.events(conn, project_id, job)
    offsets = stored_events.offsets(conn, project_id, job)
    trace_events = trace(
        job,
        ledger.attempts,
        ledgers.segments(conn, project_id, job),
        rank_spans(events, offsets, ledger),
        milestones(events, offsets, ledger),
    )
    body = msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": list(trace_events)})
    return Response(body, media_type="application/json")
