"""What people say of a regression: what it is, who looks after it, that it is the new normal."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Request
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from ett_service.api.deps import AdministeredId, AdminKey, AppParts, only_declared_parameters
from ett_service.api.parts import Parts
from ett_service.api.problems import Kind, Problem, declared
from ett_service.api.regression_answers import EXAMPLE_MUTE, MuteAnswer
from ett_service.api.regression_detail_answers import RegressionAnswer
from ett_service.api.regression_rendering import mute_answer
from ett_service.api.regressions import RegressionId, known_text, unknown, whole_answer
from ett_service.api.sent import described_body, members, read_sent, refused_window
from ett_service.ingest.requests import (
    NewAcknowledgement,
    NewBaseline,
    NewRegressionMute,
    NewTriage,
    frame,
)
from ett_service.storage.record.keys import Key
from ett_service.storage.regressions import mutes, regressions
from ett_service.storage.regressions.findings import Regression
from ett_service.storage.regressions.mutes import Mute, Muted
from ett_service.storage.regressions.regressions import Act, NotFiring

router = APIRouter(
    prefix="/v1/regressions/{regression_id}",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)

Change: TypeAlias = Callable[[Connection, int, str], Regression | None]

_WHY: dict[str, Any] = {"why": "Trainer 2.14 misses the compile cache."}
_REFUSALS = (400, 401, 403, 404, 408, 413, 415, 422, 503)


class _Asked:
    """Which regression a request is about, and who asks."""

    def __init__(
        self,
        request: Request,
        regression_id: RegressionId,
        key: AdminKey,
        project_id: AdministeredId,
        parts: AppParts,
    ) -> None:
        self.request = request
        self.regression_id = regression_id
        self.key: Key = key
        self.project_id = project_id
        self.parts: Parts = parts

    def act(self, why: str | None) -> Act:
        """Return that somebody does something now, and why."""
        return Act(self.key.prefix, why or "", self.parts.now_us())


Asked = Annotated[_Asked, Depends()]


@router.post(
    "/triage",
    operation_id="triage_regression",
    responses=declared(*_REFUSALS),
    openapi_extra=described_body(NewTriage, {"verdict": "real", **_WHY}),
)
async def triage_regression(asked: Asked) -> RegressionAnswer:
    """Say what a finding is, in place of what was said before.

    `real` and `noise` make up the precision that `/metrics` shows.
    """
    sent = await read_sent(asked.request, asked.parts, NewTriage)
    said = members(sent, frame(asked.parts.now_us()))
    act = asked.act(said["why"])
    return await _changed(asked, partial(regressions.triage, called=said["verdict"], act=act))


@router.post(
    "/acknowledge",
    operation_id="acknowledge_regression",
    responses=declared(*_REFUSALS, 409),
    openapi_extra=described_body(NewAcknowledgement, _WHY),
)
async def acknowledge_regression(asked: Asked) -> RegressionAnswer:
    """Say that somebody looks after what fires; the first to say so stays."""
    sent = await read_sent(asked.request, asked.parts, NewAcknowledgement)
    said = members(sent, frame(asked.parts.now_us()))
    return await _changed(asked, partial(regressions.acknowledge, act=asked.act(said.get("why"))))


@router.post(
    "/accept",
    operation_id="accept_regression",
    responses=declared(*_REFUSALS),
    openapi_extra=described_body(NewBaseline, _WHY),
)
async def accept_regression(asked: Asked) -> RegressionAnswer:
    """Take what is now as the new normal: it is resolved, and nothing before is compared with."""
    sent = await read_sent(asked.request, asked.parts, NewBaseline)
    said = members(sent, frame(asked.parts.now_us()))
    return await _changed(asked, partial(regressions.accept, act=asked.act(said["why"])))


@router.post(
    "/mute",
    operation_id="mute_regression",
    status_code=201,
    responses=declared(*_REFUSALS, 409),
    openapi_extra=described_body(
        NewRegressionMute, {"until": EXAMPLE_MUTE["until"], "why": EXAMPLE_MUTE["why"]}
    ),
)
async def mute_regression(asked: Asked) -> MuteAnswer:
    """Tell nobody of the cohort and phase of a regression until an instant.

    Of one without a phase all of its cohort is muted. One that has neither is refused with 409:
    it would mute the whole project, which `POST /v1/regressions/mutes` does.
    """
    sent = await read_sent(asked.request, asked.parts, NewRegressionMute)
    now_us = asked.parts.now_us()
    said = members(sent, frame(now_us))
    if said["until"] <= now_us:
        raise refused_window("/until")
    return await run_in_threadpool(
        asked.parts.store.write,
        lambda conn: _muted(conn, asked, now_us, said["until"], said["why"]),
    )


async def _changed(asked: _Asked, change: Change) -> RegressionAnswer:
    def work(conn: Connection) -> RegressionAnswer:
        kept = change(conn, asked.project_id, known_text(asked.regression_id))
        if kept is None:
            raise unknown()
        return whole_answer(conn, kept, asked.parts)

    try:
        return await run_in_threadpool(asked.parts.store.write, work)
    except NotFiring as error:
        raise Problem(Kind.CONFLICT, str(error)) from error


def _muted(conn: Connection, asked: _Asked, now_us: int, until_us: int, why: str) -> MuteAnswer:
    kept = regressions.get(conn, asked.project_id, known_text(asked.regression_id))
    if kept is None:
        raise unknown()
    muted = Muted(dict(kept.series.cohort), kept.series.subject.phase, now_us, until_us)
    if not muted.cohort and not muted.phase:
        raise Problem(Kind.CONFLICT, "It has neither cohort nor phase: name what to mute.")
    made: Mute = mutes.add(
        conn, asked.project_id, muted, by=asked.key.prefix, why=why, now_us=now_us
    )
    return mute_answer(made, regressions.key_names(conn, [made.made_by]))
