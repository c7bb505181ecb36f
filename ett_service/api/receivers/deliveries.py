"""Deliveries of messages to a receiver, and the replay of those that were given up."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BeforeValidator, Field
from sqlalchemy import Connection

from ett_service.api import pagination
from ett_service.api.answers import Answer, ComputedAnswer, Instant, NextCursor, Of, Seconds, Words
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import (
    AdministeredId,
    ListedProjectId,
    ListingKey,
    Reader,
    State,
    at_once,
    only_declared_parameters,
)
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.receivers.receivers import Name, owner_of
from ett_service.api.record.audit import AdminActs
from ett_service.notifications.notice import OF_SETTINGS
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers.deliveries import DeliveryFilter, DeliveryState
from ett_service.storage.record.audit import Action, AdminAct

router = APIRouter(
    prefix="/v1/receivers", tags=["receivers"], dependencies=[Depends(only_declared_parameters)]
)

_DONE = {done.value or "waiting": done for done in DeliveryState}
_WORDS = {done: word for word, done in _DONE.items()}
_OPEN = frozenset({DeliveryState.WAITING, DeliveryState.REPEATING})

StateWord = Annotated[str, Words(tuple(_DONE))]


class Try(Answer):
    """One try of a delivery."""

    at: Instant = Field(validation_alias="at_us")
    took_seconds: Seconds
    status: int | None = Field(description="HTTP status; null without an answer.")
    said: str = Field(description="The start of the answer, or the error.")


class DeliveryAnswer(ComputedAnswer):
    """A message to a receiver."""

    id: str = Field(description="The `webhook-id`, which is the same for all tries.")
    fingerprint: str
    state_version: int = Field(validation_alias="version")
    state: Annotated[StateWord, BeforeValidator(_WORDS.get)] = Field(
        validation_alias="done",
        description="`waiting`: pending. `repeating`: delivered, and repeated. `superseded`: "
        "replaced by a newer message.",
    )
    made_at: Instant
    due_at: Annotated[
        Instant | None,
        Of(lambda delivery: delivery.due_us if delivery.done in _OPEN else None),
    ] = Field(description="When it is tried next; null if it is not.")
    done_at: Instant | None
    failed_tries: int = Field(validation_alias="tries")
    tried: list[Try] = Field(description="The last tries, in order of time.")


class DeliveryPage(Answer):
    """A page of deliveries, the latest first."""

    deliveries: list[DeliveryAnswer]
    next_cursor: NextCursor


class Replayed(Answer):
    """The dead deliveries that are sent again."""

    replayed: int = Field(description="Without those that a newer message replaced.")


@dataclass(frozen=True, kw_only=True)
class DeliveryQuery:
    """The query of a list of deliveries."""

    state: Annotated[tuple[StateWord, ...], Query(description="Any of these; by default all.")] = ()
    limit: pagination.Limit = 100
    cursor: pagination.Cursor = None


@router.get(
    "/{name}/deliveries",
    operation_id="list_deliveries",
    response_model=DeliveryPage,
    responses=as_files(paged=True),
)
def list_deliveries(
    name: Name,
    query: Annotated[DeliveryQuery, Depends(at_once(DeliveryQuery))],
    key: ListingKey,
    conn: Reader,
    project_id: ListedProjectId,
    state: State,
    *,
    form: FormatParameter = "json",
) -> DeliveryPage | Response:
    """List the sent and pending deliveries of a receiver, a page at a time."""
    owner = owner_of(state, conn, project_id, name)
    if owner == OF_SETTINGS and "admin" not in key.scopes:  # it hears of every project
        raise Problem(ProblemKind.NOT_FOUND, "No such receiver.")
    after = None if query.cursor is None else pagination.read(query.cursor, pagination.BY_TIME)
    delivery_filter = DeliveryFilter(
        owner=owner, receiver=name, done=[_DONE[word] for word in query.state]
    )
    rows = deliveries.listing(conn, delivery_filter, limit=query.limit + 1, after=after)
    shown, next_cursor = pagination.page(
        rows, query.limit, lambda delivery: (delivery.made_us, delivery.id)
    )
    page = DeliveryPage.of(deliveries=shown, next_cursor=next_cursor)
    return listed(form, page, page.deliveries, of=DeliveryAnswer, name="deliveries")


@router.post(
    "/{name}/replay",
    operation_id="replay_deliveries",
    responses=declared(401, 403, 404, 422, 503),
)
def replay_deliveries(
    name: Name, acts: AdminActs, project_id: AdministeredId, state: State
) -> Replayed:
    """Send the dead deliveries of a receiver again, and enable it if it was disabled."""
    now_us = state.now_us()

    def replay(conn: Connection) -> int:
        owner = owner_of(state, conn, project_id, name)
        count = deliveries.replay(conn, DeliveryFilter(owner=owner, receiver=name), now_us)
        deliveries.enable(conn, owner, name)
        return count

    act = AdminAct(Action.DELIVERIES_REPLAYED, name, project_id)
    return Replayed(replayed=acts.write(replay, act))
