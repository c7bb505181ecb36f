"""What became of messages to a receiver, and dead letters that are sent again."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy import Connection

from ett_service.api import cursor as cursors
from ett_service.api.deps import (
    AdministeredId,
    AppParts,
    ListedProjectId,
    ListingKey,
    Reader,
    only_declared_parameters,
    require,
)
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parameters import CursorText
from ett_service.api.problems import declared
from ett_service.api.receiver_answers import DeliveryAnswer, DeliveryPage, Fate, Replayed
from ett_service.api.receiver_rendering import DONE, delivery
from ett_service.api.receivers import Name, owner_of
from ett_service.notifications.receiver import OF_SETTINGS
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers.deliveries import DeliveryFilter

router = APIRouter(
    prefix="/v1/receivers", tags=["receivers"], dependencies=[Depends(only_declared_parameters)]
)

_PLACE = tuple[cursors.Whole, cursors.Word]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The query of a list of deliveries."""

    state: Annotated[tuple[Fate, ...], Query(description="Any of these; default all.")] = ()
    limit: Annotated[int, Query(ge=1, le=1000)] = 100
    cursor: CursorText = None


@router.get(
    "/{name}/deliveries",
    operation_id="list_deliveries",
    response_model=DeliveryPage,
    responses={**as_files(paged=True), **declared(401, 403, 404, 422, 503)},
)
def list_deliveries(
    name: Name,
    asked: Annotated[Asked, Depends()],
    key: ListingKey,
    conn: Reader,
    project_id: ListedProjectId,
    parts: AppParts,
    *,
    form: FormatParameter = "json",
) -> DeliveryPage | Response:
    """List what a receiver was told and is to be told, a page at a time."""
    owner = owner_of(parts, conn, project_id, name)
    if owner == OF_SETTINGS:
        require(key, "admin")  # it hears of every project
    after = None if asked.cursor is None else cursors.read(asked.cursor, _PLACE)
    wanted = DeliveryFilter(owner=owner, receiver=name, done=[DONE[state] for state in asked.state])
    found = deliveries.listing(conn, wanted, limit=asked.limit + 1, after=after)
    shown, more = found[: asked.limit], len(found) > asked.limit
    page = DeliveryPage(
        deliveries=[delivery(one) for one in shown],
        next_cursor=cursors.write((shown[-1].made_us, shown[-1].id)) if more else None,
    )
    return listed(
        form,
        page,
        page.deliveries,
        of=DeliveryAnswer,
        name="deliveries",
        next_cursor=page.next_cursor,
    )


@router.post(
    "/{name}/replay",
    operation_id="replay_deliveries",
    responses=declared(401, 403, 404, 422, 503),
)
def replay_deliveries(name: Name, project_id: AdministeredId, parts: AppParts) -> Replayed:
    """Send the dead letters of a receiver again, and let it be tried anew if it was given up."""
    now_us = parts.now_us()

    def replay(conn: Connection) -> int:
        owner = owner_of(parts, conn, project_id, name)
        count = deliveries.replay(conn, DeliveryFilter(owner=owner, receiver=name), now_us)
        deliveries.enable(conn, owner, name)
        return count

    return Replayed(replayed=parts.store.write(replay))
