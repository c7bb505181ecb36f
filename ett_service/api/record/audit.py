"""The audit log: who administered what, when, and from where."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from ett_service.api import pagination
from ett_service.api.answers import Answer, Instant, KeyPrefix, NextCursor
from ett_service.api.bodies import FormatParameter, as_files, listed
from ett_service.api.deps import AdminKey, At, Reader, Text, at_once, only_declared_parameters
from ett_service.storage.record import audit
from ett_service.storage.record.audit import Action, AuditFilter, Via

router = APIRouter(
    prefix="/v1/audit", tags=["audit"], dependencies=[Depends(only_declared_parameters)]
)


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
