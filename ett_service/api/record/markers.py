"""Markers: deploys, launches, maintenance windows, beside which the numbers are read."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool

from ett_service.api import pagination as cursors
from ett_service.api.answers import Answer, Instant
from ett_service.api.deps import (
    AppParts,
    CorrectedProjectId,
    CorrectingKey,
    ProjectId,
    Reader,
    only_declared_parameters,
)
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parameters import At, CursorText, Text
from ett_service.api.problems import Kind, Problem, declared
from ett_service.api.rendering import maybe_instant
from ett_service.api.sent import described_body, members, read_sent, refused_window
from ett_service.core.events import Marker, MarkerKind
from ett_service.core.intervals import rfc3339
from ett_service.ingest.requests import NewMarker, frame
from ett_service.storage.record import markers
from ett_service.storage.record.markers import KeptMarker, MarkerFilter

router = APIRouter(
    prefix="/v1/markers", tags=["markers"], dependencies=[Depends(only_declared_parameters)]
)

_PLACE = tuple[cursors.Whole, cursors.Word]
_SENT: dict[str, Any] = {
    "at": "2026-03-01T08:00:00Z",
    "kind": "deploy",
    "title": "Trainer 4.2",
    "labels": {"service": "trainer"},
}
_EXAMPLE: dict[str, Any] = {
    "id": "5f0c2c1e9d4b4b3c8a6d",
    "project": "research",
    "at": "2026-03-01T08:00:00.000000Z",
    "end": None,
    "kind": "deploy",
    "title": "Trainer 4.2",
    "labels": {"service": "trainer"},
    "made_by": "ett_4Zk0Xw7b",
    "made_by_name": "release pipeline",
    "made_at": "2026-03-01T08:00:07.000000Z",
}


class MarkerAnswer(Answer):
    """What was done to the fleet, and when."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    id: str = Field(description="Unique in its project.")
    project: str
    at: Instant
    end: Instant | None = Field(description="Null for what took no time.")
    kind: MarkerKind
    title: str
    labels: dict[str, str]
    made_by: str = Field(description="Prefix of the key that made it.")
    made_by_name: str | None
    made_at: Instant


class MarkerPage(Answer):
    """A page of markers, the latest first."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"markers": [_EXAMPLE], "next_cursor": None}}
    )

    markers: list[MarkerAnswer]
    next_cursor: str | None = Field(description="Sent as `cursor` it gives the next page.")


def _label(text: str) -> str:
    name, colon, _ = text.partition(":")
    if not name or not colon or "\x00" in text:
        raise PydanticCustomError("bad_label", "NAME:VALUE is needed")
    return text


Label = Annotated[str, AfterValidator(_label), Field(max_length=400)]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The query of a list of markers."""

    from_us: Annotated[At, Query(alias="from", description="Those that end at or after it.")] = None
    to_us: Annotated[At, Query(alias="to", description="Those that begin before it.")] = None
    kind: Annotated[MarkerKind | None, Query()] = None
    q: Annotated[Text, Query(description="Part of the title, in any case.")] = None
    label: Annotated[
        tuple[Label, ...],
        Query(description="`NAME:VALUE`, split at the first colon; several must all hold."),
    ] = ()
    limit: Annotated[int, Query(ge=1, le=1000)] = 100
    cursor: CursorText = None

    @property
    def wanted(self) -> MarkerFilter:
        """The filters that were given."""
        labels = [text.partition(":") for text in self.label]
        return MarkerFilter(
            from_us=self.from_us,
            to_us=self.to_us,
            kind=self.kind,
            contains=self.q,
            labels={name: value for name, _, value in labels},
        )


@router.get(
    "",
    operation_id="list_markers",
    response_model=MarkerPage,
    responses={**as_files(paged=True), **declared(401, 403, 404, 422, 503)},
)
def list_markers(
    asked: Annotated[Asked, Depends()],
    conn: Reader,
    project_id: ProjectId,
    form: FormatParameter = "json",
) -> MarkerPage | Response:
    """List the markers of a project, a page at a time."""
    after = None if asked.cursor is None else cursors.read(asked.cursor, _PLACE)
    found = markers.markers(conn, [project_id], asked.wanted, limit=asked.limit + 1, after=after)
    shown, more = found[: asked.limit], len(found) > asked.limit
    page = MarkerPage(
        markers=[_answer(kept) for kept in shown],
        next_cursor=cursors.write((shown[-1].marker.at, shown[-1].marker.id)) if more else None,
    )
    return listed(
        form, page, page.markers, of=MarkerAnswer, name="markers", next_cursor=page.next_cursor
    )


@router.post(
    "",
    operation_id="create_marker",
    status_code=201,
    responses={
        200: {"description": "The marker is known already.", "model": MarkerAnswer},
        **declared(400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
    },
    openapi_extra=described_body(NewMarker, _SENT),
)
async def create_marker(
    request: Request,
    response: Response,
    key: CorrectingKey,
    project_id: CorrectedProjectId,
    parts: AppParts,
) -> MarkerAnswer:
    """Keep a marker. The same again is the same marker, also where it names no `id`.

    An instant may lie up to a year ahead: maintenance is planned.
    """
    sent = await read_sent(request, parts, NewMarker)
    now_us = parts.now_us()
    made = _made(members(sent, frame(now_us)))
    kept, is_new = await run_in_threadpool(
        parts.store.write,
        lambda conn: markers.add_marker(conn, project_id, made, made_by=key.prefix, now_us=now_us),
    )
    if kept.marker != made:
        raise Problem(Kind.CONFLICT, "A marker of this id with other content is known.")
    response.status_code = 201 if is_new else 200
    return _answer(kept)


@router.delete(
    "/{marker_id}",
    operation_id="delete_marker",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 422, 503),
)
def delete_marker(
    marker_id: str, project_id: CorrectedProjectId, _: CorrectingKey, parts: AppParts
) -> None:
    """Forget a marker."""
    if "\x00" in marker_id or not parts.store.write(
        lambda conn: markers.delete_marker(conn, project_id, marker_id)
    ):
        raise Problem(Kind.NOT_FOUND, "No such marker.")


def _made(said: dict[str, Any]) -> Marker:
    made = Marker(**{"id": "", **said})
    if made.end is not None and made.end <= made.at:
        raise refused_window("/end")
    return made if made.id else replace(made, id=markers.derived_id(made))


def _answer(kept: KeptMarker) -> MarkerAnswer:
    marker = kept.marker
    return MarkerAnswer(
        id=marker.id,
        project=kept.project,
        at=rfc3339(marker.at),
        end=maybe_instant(marker.end),
        kind=marker.kind,
        title=marker.title,
        labels=dict(marker.labels),
        made_by=kept.made_by,
        made_by_name=kept.made_by_name,
        made_at=rfc3339(kept.made_at),
    )
