"""Mutes: of which cohorts and phases nobody is told for a while."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from ett_service.api import cursor as cursors
from ett_service.api.deps import (
    AdministeredId,
    AdminKey,
    AppParts,
    ProjectIds,
    Reader,
    only_declared_parameters,
)
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.parameters import CursorText
from ett_service.api.problems import Kind, Problem, declared
from ett_service.api.regression_answers import EXAMPLE_MUTE, MuteAnswer, MutePage
from ett_service.api.regression_rendering import mute_answer
from ett_service.api.sent import described_body, members, read_sent, refused, refused_window
from ett_service.core.dimensions import DIMENSIONS
from ett_service.core.words import Category, Phase
from ett_service.ingest.refusals import Code, Fault
from ett_service.ingest.requests import NewMute, frame
from ett_service.storage.regressions import mutes, regressions
from ett_service.storage.regressions.mutes import Muted

router = APIRouter(
    prefix="/v1/regressions/mutes",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)

_PLACE = tuple[cursors.Whole, cursors.Word]
_SENT = {name: EXAMPLE_MUTE[name] for name in ("cohort", "phase", "until", "why")}
_PHASES = frozenset({*map(str, Phase), *map(str, Category)})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The query of a list of mutes."""

    over: Annotated[
        bool, Query(description="Whether those that ended, or were taken back, are listed, too.")
    ] = False
    limit: Annotated[int, Query(ge=1, le=1000)] = 100
    cursor: CursorText = None


@router.get(
    "",
    operation_id="list_mutes",
    response_model=MutePage,
    responses={**as_files(paged=True), **declared(401, 403, 404, 422, 503)},
)
def list_mutes(
    asked: Annotated[Asked, Depends()],
    conn: Reader,
    project_ids: ProjectIds,
    parts: AppParts,
    form: FormatParameter = "json",
) -> MutePage | Response:
    """List what is muted now or later, those made last first."""
    found = mutes.listing(
        conn,
        project_ids,
        at_us=None if asked.over else parts.now_us(),
        limit=asked.limit + 1,
        after=None if asked.cursor is None else cursors.read(asked.cursor, _PLACE),
    )
    shown, more = found[: asked.limit], len(found) > asked.limit
    makers = [prefix for one in shown for prefix in (one.made_by, one.taken_back_by)]
    names = regressions.key_names(conn, makers)
    page = MutePage(
        mutes=[mute_answer(one, names) for one in shown],
        next_cursor=cursors.write((shown[-1].made_us, shown[-1].id)) if more else None,
    )
    return listed(form, page, page.mutes, of=MuteAnswer, name="mutes", next_cursor=page.next_cursor)


@router.post(
    "",
    operation_id="create_mute",
    status_code=201,
    responses=declared(400, 401, 403, 404, 408, 413, 415, 422, 503),
    openapi_extra=described_body(NewMute, _SENT),
)
async def create_mute(
    request: Request, key: AdminKey, project_id: AdministeredId, parts: AppParts
) -> MuteAnswer:
    """Tell nobody of these cohorts and this phase until an instant, up to a year ahead.

    What concerns more than they do is told: the whole project is not muted with one cluster.
    """
    sent = await read_sent(request, parts, NewMute)
    now_us = parts.now_us()
    said = members(sent, frame(now_us))
    muted = _muted(said, now_us)

    def add(conn: Any) -> MuteAnswer:
        made = mutes.add(conn, project_id, muted, by=key.prefix, why=said["why"], now_us=now_us)
        return mute_answer(made, regressions.key_names(conn, [made.made_by]))

    return await run_in_threadpool(parts.store.write, add)


@router.delete(
    "/{mute_id}",
    operation_id="take_back_mute",
    status_code=204,
    response_class=Response,
    responses=declared(401, 403, 404, 422, 503),
)
def take_back_mute(
    mute_id: str, key: AdminKey, project_id: AdministeredId, parts: AppParts
) -> None:
    """End a mute now; it stays in the list of those that are over."""
    by, now_us = key.prefix, parts.now_us()
    if "\x00" in mute_id or not parts.store.write(
        lambda conn: mutes.take_back(conn, project_id, mute_id, by=by, now_us=now_us)
    ):
        raise Problem(Kind.NOT_FOUND, "No such mute that is still to end.")


def _muted(said: dict[str, Any], now_us: int) -> Muted:
    cohort, phase = said.get("cohort", {}), said.get("phase", "")
    unknown = sorted(cohort.keys() - DIMENSIONS)
    if unknown:
        raise refused(Fault(Code.UNKNOWN_MEMBER, f"/cohort/{unknown[0]}"))
    if phase and phase not in _PHASES:
        raise refused(Fault(Code.UNKNOWN_PHASE, "/phase"))
    muted = Muted(cohort, phase, said.get("begin", now_us), said["until"])
    if muted.until_us <= max(now_us, muted.from_us):
        raise refused_window("/until")
    return muted
