"""A job's events, as they were accepted."""

from dataclasses import fields
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from pydantic import ConfigDict, Field

from ett_service.api import pagination as cursors
from ett_service.api.answers import Answer
from ett_service.api.columns import event_columns
from ett_service.api.deps import Job, ProjectId, Reader, only_declared_parameters
from ett_service.api.formats import FormatParameter, as_file, as_files
from ett_service.api.parameters import CursorText
from ett_service.api.problems import Kind, Problem, declared
from ett_service.core.events import Event
from ett_service.core.intervals import rfc3339
from ett_service.storage.jobs import listing
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.events import decode_body

router = APIRouter(tags=["jobs"], dependencies=[Depends(only_declared_parameters)])

_INSTANTS = ("at", "start", "submitted_at")
_PLACE = tuple[cursors.Whole, cursors.Word]


class EventPage(Answer):
    """A page of events, the earliest first."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "job": "llm-70b",
                "events": [
                    {
                        "type": "progress",
                        "id": "01K5-7",
                        "at": "2026-03-01T08:10:00.000000Z",
                        "attempt": 0,
                        "step": 120,
                        "received_at": "2026-03-01T08:10:00.412000Z",
                    }
                ],
                "next_cursor": None,
            }
        }
    )

    job: str
    events: list[dict[str, Any]] = Field(
        description="Members as on the wire, instants in UTC, and `received_at`."
    )
    next_cursor: str | None = Field(description="Sent as `cursor` it gives the next page.")


@router.get(
    "/v1/jobs/{job}/events",
    operation_id="list_job_events",
    response_model=EventPage,
    responses={**as_files(paged=True), **declared(401, 403, 404, 422, 503)},
)
def list_job_events(
    job: Job,
    conn: Reader,
    project_id: ProjectId,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    cursor: CursorText = None,
    form: FormatParameter = "json",
) -> EventPage | Response:
    """List what was told about a job, by the instants that the events name."""
    after = None if cursor is None else cursors.read(cursor, _PLACE)
    rows = listing.event_bodies(conn, project_id, job, limit=limit + 1, after=after)
    if not rows and not stored_events.job_exists(conn, project_id, job):
        raise Problem(Kind.NOT_FOUND, "No such job.")
    shown, more = rows[:limit], len(rows) > limit
    told = [_wire_members(row) for row in shown]
    next_cursor = cursors.write((shown[-1].at_us, shown[-1].id)) if more else None
    if form == "json":
        return EventPage(job=job, events=told, next_cursor=next_cursor)
    return as_file(form, event_columns(), told, name="events", next_cursor=next_cursor)


def _wire_members(row: Any) -> dict[str, Any]:
    event = decode_body(row.type, row.body)
    return {**wire_members(event), "received_at": rfc3339(row.received_us)}


def wire_members(event: Event) -> dict[str, Any]:
    """Write *event* with the members that it has on the wire, without those that say nothing."""
    members: dict[str, Any] = {"type": event.type}
    for field in fields(event):
        value = getattr(event, field.name)
        if value is None or value in ("", {}):
            continue
        members[field.name] = rfc3339(value) if field.name in _INSTANTS else value
    return members
