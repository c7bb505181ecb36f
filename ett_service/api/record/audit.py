"""The audit log: who administered what, when, and from where, written with each act."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field
from sqlalchemy import Connection

from ett_service.api import pagination
from ett_service.api.answers import Answer, Instant, KeyPrefix, NextCursor
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import (
    AdminKey,
    At,
    CorrectingKey,
    Reader,
    State,
    Text,
    at_once,
    only_declared_parameters,
)
from ett_service.api.state import AppState
from ett_service.storage.record import audit
from ett_service.storage.record.audit import Action, Actor, AdminAct, AuditFilter, Via
from ett_service.storage.record.keys import Key

T = TypeVar("T")

log = logging.getLogger(__name__)

router = APIRouter(
    prefix="/v1/audit", tags=["audit"], dependencies=[Depends(only_declared_parameters)]
)


@dataclass(frozen=True, slots=True)
class Acts:
    """Writes what the holder of a key does."""

    state: AppState
    key: Key
    actor: Actor

    def write(self, work: Callable[[Connection], T], act: AdminAct) -> T:
        """Run *work* and record *act*, both or neither; a work that returns None or False did
        nothing, and leaves no entry."""

        def recorded(conn: Connection) -> T:
            result = work(conn)
            if result is not None and result is not False:
                self.record(conn, act)
            return result

        return self.state.store.write(recorded)

    def record(self, conn: Connection, act: AdminAct) -> None:
        """Record *act* in the transaction that does it."""
        audit.record(conn, self.actor, act, self.state.now_us())
        fields = {"event": "admin_act", "action": act.action.value, "target": act.target}
        log.info("An administrator acts.", extra={**fields, "key": self.actor.made_by})


def _acts(request: Request, key: Key, state: AppState) -> Acts:
    by_page = getattr(request.state, "reader", None) is not None
    host = request.client.host if request.client else ""
    actor = Actor(key.prefix, key.name, Via.PAGE if by_page else Via.API, host)
    return Acts(state, key, actor)


def _admin_acts(request: Request, key: AdminKey, state: State) -> Acts:
    return _acts(request, key, state)


def _correcting_acts(request: Request, key: CorrectingKey, state: State) -> Acts:
    return _acts(request, key, state)


AdminActs = Annotated[Acts, Depends(_admin_acts)]
CorrectingActs = Annotated[Acts, Depends(_correcting_acts)]


class AuditEntry(Answer):
    """One act."""

    id: str
    at: Instant = Field(validation_alias="at_us")
    action: Action
    project: str | None = Field(description="Null for what is of no project.")
    target: str = Field(
        description="What it was done to: the prefix of a key, the name of a receiver or of a job, "
        "the id of a regression, a mute or a marker; empty where the action says it."
    )
    details: dict[str, Any] = Field(
        description="What was set, as far as it is no secret; members differ by action."
    )
    made_by: KeyPrefix | None = Field(description="Null for a command beside the database.")
    made_by_name: str = Field(description="Name of the key, or of the user of the machine.")
    made_via: Via = Field(
        description="`api`, `page`: a browser; `command`: `ett` beside the database; `start`: a "
        "server that started with other settings."
    )
    made_from: str = Field(description="Address of the client, or name of the machine.")


class AuditPage(Answer):
    """A page of the audit log, the latest first."""

    entries: list[AuditEntry]
    next_cursor: NextCursor


@dataclass(frozen=True, kw_only=True)
class AuditQuery:
    """The query of the audit log."""

    from_us: Annotated[At, Query(alias="from")] = None
    to_us: Annotated[At, Query(alias="to", description="Entries before it.")] = None
    action: Annotated[tuple[Action, ...], Query(description="Any of these; by default all.")] = ()
    made_by: Annotated[Text, Query(description="Prefix of a key.")] = None
    project: Text = None
    target: Text = None
    limit: pagination.Limit = 100
    cursor: pagination.Cursor = None

    @property
    def wanted(self) -> AuditFilter:
        """The filters that were given."""
        return AuditFilter(
            from_us=self.from_us,
            to_us=self.to_us,
            actions=self.action,
            made_by=self.made_by,
            project=self.project,
            target=self.target,
        )


@router.get(
    "",
    operation_id="list_audit_entries",
    response_model=AuditPage,
    responses=as_files(paged=True),
)
def list_audit_entries(
    query: Annotated[AuditQuery, Depends(at_once(AuditQuery))],
    _: AdminKey,
    conn: Reader,
    form: FormatParameter = "json",
) -> AuditPage | Response:
    """List what administrators did in every project. Entries are never changed nor deleted."""
    after = None if query.cursor is None else pagination.read(query.cursor, pagination.BY_TIME)
    rows = audit.listing(conn, query.wanted, limit=query.limit + 1, after=after)
    shown, next_cursor = pagination.page(rows, query.limit, lambda entry: (entry.at_us, entry.id))
    page = AuditPage.of(entries=shown, next_cursor=next_cursor)
    return listed(form, page, page.entries, of=AuditEntry, name="audit")
