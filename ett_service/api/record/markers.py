"""Markers: deploys, launches and maintenance, which give the numbers their context."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AfterValidator, AliasPath, Field
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool

from ett_service.api import pagination
from ett_service.api.answers import Answer, Instant, KeyPrefix, NextCursor
from ett_service.api.bodies import (
    FormatParameter,
    as_files,
    described,
    listed,
    members,
    read_struct,
    refused_window,
)
from ett_service.api.deps import (
    At,
    CorrectedProjectId,
    CorrectingKey,
    ProjectId,
    Reader,
    State,
    Text,
    at_once,
    only_declared_parameters,
)
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.record.audit import CorrectingActs
from ett_service.core.events import Marker, MarkerKind
from ett_service.ingest.requests import NewMarker, frame
from ett_service.storage.record import markers
from ett_service.storage.record.audit import Action, AdminAct
from ett_service.storage.record.markers import MarkerFilter

router = APIRouter(
    prefix="/v1/markers", tags=["markers"], dependencies=[Depends(only_declared_parameters)]
)


def _of_marker(name: str, description: str | None = None) -> Any:
    return Field(validation_alias=AliasPath("marker", name), description=description)


class MarkedAnswer(Answer):
    """A marker."""

    id: str = _of_marker("id", "Unique in its project.")
    project: str
    at: Instant = _of_marker("at")
    end: Instant | None = _of_marker("end", "Null for a marker of one instant.")
    kind: MarkerKind = _of_marker("kind")
    title: str = _of_marker("title")
    labels: dict[str, str] = _of_marker("labels")


class MarkerAnswer(MarkedAnswer):
    """A change of the fleet, and when it was made."""

    made_by: KeyPrefix
    made_by_name: str | None
    made_at: Instant


class MarkerPage(Answer):
    """A page of markers, the latest first."""

    markers: list[MarkerAnswer]
    next_cursor: NextCursor


def _label(text: str) -> str:
    name, colon, _ = text.partition(":")
    if not name or not colon or "\x00" in text:
        raise PydanticCustomError("bad_label", "NAME:VALUE is needed")
    return text


_NAMED = {"pattern": r"^[^:\x00]+:[^\x00]*$"}
Label = Annotated[str, AfterValidator(_label), Field(max_length=400, json_schema_extra=_NAMED)]


@dataclass(frozen=True, kw_only=True)
class MarkerQuery:
    """The query of a list of markers."""

    from_us: Annotated[At, Query(alias="from", description="Markers that end at or after it.")] = (
        None
    )
    to_us: Annotated[At, Query(alias="to", description="Markers that start before it.")] = None
    kind: Annotated[MarkerKind | None, Query()] = None
    q: Annotated[Text, Query(description="Part of the title, case-insensitive.")] = None
    label: Annotated[
        tuple[Label, ...],
        Query(description="`NAME:VALUE`, split at the first colon. Several must all match."),
    ] = ()
    limit: pagination.Limit = 100
    cursor: pagination.Cursor = None

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
    "", operation_id="list_markers", response_model=MarkerPage, responses=as_files(paged=True)
)
def list_markers(
    query: Annotated[MarkerQuery, Depends(at_once(MarkerQuery))],
    conn: Reader,
    project_id: ProjectId,
    form: FormatParameter = "json",
) -> MarkerPage | Response:
    """List the markers of a project, a page at a time."""
    after = None if query.cursor is None else pagination.read(query.cursor, pagination.BY_TIME)
    rows = markers.markers(conn, [project_id], query.wanted, limit=query.limit + 1, after=after)
    shown, next_cursor = pagination.page(
        rows, query.limit, lambda stored: (stored.marker.at, stored.marker.id)
    )
    page = MarkerPage.of(markers=shown, next_cursor=next_cursor)
    return listed(form, page, page.markers, of=MarkerAnswer, name="markers")


@router.post(
    "",
    operation_id="create_marker",
    status_code=201,
    responses={
        200: {"description": "The marker exists already.", "model": MarkerAnswer},
        **declared(400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
    },
    openapi_extra=described(NewMarker),
)
async def create_marker(
    request: Request,
    response: Response,
    key: CorrectingKey,
    project_id: CorrectedProjectId,
    state: State,
) -> MarkerAnswer:
    """Create a marker. The same content again is the same marker, even without an `id`.

    An instant may lie up to a year ahead, for planned maintenance.
    """
    body = await read_struct(request, state, NewMarker)
    now_us = state.now_us()
    marker = _marker(members(body, frame(now_us)))
    stored, is_new = await run_in_threadpool(
        state.store.write,
        lambda conn: markers.add_marker(
            conn, project_id, marker, made_by=key.prefix, now_us=now_us
        ),
    )
    if stored.marker != marker:
        raise Problem(ProblemKind.CONFLICT, "Another marker has this id.")
    response.status_code = 201 if is_new else 200
    return MarkerAnswer.model_validate(stored)


@router.delete(
    "/{marker_id}",
    operation_id="delete_marker",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 422, 503),
)
def delete_marker(marker_id: str, project_id: CorrectedProjectId, acts: CorrectingActs) -> None:
    """Delete a marker."""
    if "\x00" in marker_id or not acts.write(
        lambda conn: markers.delete_marker(conn, project_id, marker_id),
        AdminAct(Action.MARKER_DELETED, marker_id, project_id),
    ):
        raise Problem(ProblemKind.NOT_FOUND, "No such marker.")


def _marker(body: dict[str, Any]) -> Marker:
    marker = Marker(**{"id": "", **body})
    if marker.end is not None and marker.end <= marker.at:
        raise refused_window("/end")
    return marker if marker.id else replace(marker, id=markers.derived_id(marker))
