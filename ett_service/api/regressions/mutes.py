"""Mutes: cohorts and phases whose regressions are not notified for a while."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AliasPath, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from ett_service.api import pagination
from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    EmptyIsNull,
    Instant,
    KeyPrefix,
    NextCursor,
    Of,
)
from ett_service.api.bodies import (
    FormatParameter,
    as_files,
    described,
    listed,
    members,
    read_struct,
    refused,
    refused_window,
)
from ett_service.api.deps import (
    AdministeredId,
    ProjectIds,
    Reader,
    State,
    at_once,
    only_declared_parameters,
)
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.record.audit import AdminActs
from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.intervals import rfc3339
from ett_service.ingest.refusals import Code, Fault
from ett_service.ingest.requests import PHASES, NewMute, frame
from ett_service.storage.record.audit import Action, AdminAct
from ett_service.storage.regressions import notices, regressions
from ett_service.storage.regressions.notices import Mute, Muted

router = APIRouter(
    prefix="/v1/regressions/mutes",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)

KeyNames = Mapping[str, str]
"""Names of keys by their prefixes."""


def key_name(member: str) -> Of:
    """Read the name of the key whose prefix *member* holds."""
    return Of(lambda source: source.names.get(getattr(source, member) or ""))


class MuteAnswer(ComputedAnswer):
    """What is not notified, and until when."""

    id: str
    project: str
    cohort: dict[str, str] = Field(
        validation_alias=AliasPath("muted", "cohort"),
        description="Cohorts whose dimensions have these values.",
    )
    phase: Annotated[str | None, EmptyIsNull] = Field(
        validation_alias=AliasPath("muted", "phase"), description="Null for all phases."
    )
    from_at: Instant = Field(
        serialization_alias="from", validation_alias=AliasPath("muted", "from_us")
    )
    until: Instant = Field(validation_alias=AliasPath("muted", "until_us"))
    why: str
    made_by: KeyPrefix
    made_by_name: Annotated[str | None, key_name("made_by")]
    made_at: Instant
    taken_back_by: str | None
    taken_back_by_name: Annotated[str | None, key_name("taken_back_by")]
    taken_back_at: Instant | None

    @classmethod
    def read(cls, mute: Mute, names: KeyNames) -> "MuteAnswer":
        """Read a mute, which ends when it was taken back."""
        return cls.of(mute, names=names)


class MutePage(Answer):
    """A page of mutes, the most recently created first."""

    mutes: list[MuteAnswer]
    next_cursor: NextCursor


@dataclass(frozen=True, kw_only=True)
class MuteQuery:
    """The query of a list of mutes."""

    over: Annotated[bool, Query(description="Also list mutes that ended or were taken back.")] = (
        False
    )
    limit: pagination.Limit = 100
    cursor: pagination.Cursor = None


@router.get("", operation_id="list_mutes", response_model=MutePage, responses=as_files(paged=True))
def list_mutes(
    query: Annotated[MuteQuery, Depends(at_once(MuteQuery))],
    conn: Reader,
    project_ids: ProjectIds,
    state: State,
    form: FormatParameter = "json",
) -> MutePage | Response:
    """List the present and future mutes, the most recently created first."""
    rows = notices.list_mutes(
        conn,
        project_ids,
        at_us=None if query.over else state.now_us(),
        limit=query.limit + 1,
        after=None if query.cursor is None else pagination.read(query.cursor, pagination.BY_TIME),
    )
    shown, next_cursor = pagination.page(rows, query.limit, lambda mute: (mute.made_us, mute.id))
    makers = [prefix for mute in shown for prefix in (mute.made_by, mute.taken_back_by)]
    names = regressions.key_names(conn, makers)
    page = MutePage(mutes=[MuteAnswer.read(mute, names) for mute in shown], next_cursor=next_cursor)
    return listed(form, page, page.mutes, of=MuteAnswer, name="mutes")


@router.post(
    "",
    operation_id="create_mute",
    status_code=201,
    responses=declared(400, 401, 403, 404, 408, 413, 415, 422, 503),
    openapi_extra=described(NewMute),
)
async def create_mute(
    request: Request, acts: AdminActs, project_id: AdministeredId, state: State
) -> MuteAnswer:
    """Mute cohorts and a phase until an instant, up to a year ahead.

    Regressions of wider cohorts are still notified: muting a cluster does not mute its project.
    """
    body = await read_struct(request, state, NewMute)
    now_us = state.now_us()
    content = members(body, frame(now_us))
    muted = _muted(content, now_us)

    def add(conn: Connection) -> MuteAnswer:
        why: str = content["why"]
        mute = notices.add_mute(conn, project_id, muted, by=acts.key.prefix, why=why, now_us=now_us)
        acts.record(conn, mute_act(mute))
        return MuteAnswer.read(mute, regressions.key_names(conn, [mute.made_by]))

    return await run_in_threadpool(state.store.write, add)


@router.delete(
    "/{mute_id}",
    operation_id="take_back_mute",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 422, 503),
)
def take_back_mute(mute_id: str, acts: AdminActs, project_id: AdministeredId, state: State) -> None:
    """End a mute now. It stays in the list of past mutes."""
    by, now_us = acts.key.prefix, state.now_us()
    if "\x00" in mute_id or not acts.write(
        lambda conn: notices.take_back_mute(conn, project_id, mute_id, by=by, now_us=now_us),
        AdminAct(Action.MUTE_TAKEN_BACK, mute_id, project_id),
    ):
        raise Problem(ProblemKind.NOT_FOUND, "No mute of this id is in force.")


def mute_act(mute: Mute) -> AdminAct:
    """Return what the audit log says of a new mute."""
    until = rfc3339(mute.muted.until_us)
    details = {"cohort": dict(mute.muted.cohort), "phase": mute.muted.phase, "until": until}
    details["why"] = mute.why
    return AdminAct(Action.MUTE_CREATED, mute.id, mute.project_id, details)


def _muted(content: dict[str, Any], now_us: int) -> Muted:
    cohort, phase = content.get("cohort", {}), content.get("phase", "")
    unknown = sorted(cohort.keys() - DIMENSIONS)
    if unknown:
        raise refused(Fault(Code.UNKNOWN_MEMBER, f"/cohort/{unknown[0]}"))
    if phase and phase not in PHASES:
        raise refused(Fault(Code.UNKNOWN_PHASE, "/phase"))
    muted = Muted(cohort, phase, content.get("begin", now_us), content["until"])
    if muted.until_us <= max(now_us, muted.from_us):
        raise refused_window("/until")
    return muted
