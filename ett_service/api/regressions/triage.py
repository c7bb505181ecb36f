"""What people do about a regression: triage, acknowledge, accept, mute; and what verdicts tune."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, TypeAlias

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import AliasPath, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from ett_service.api.answers import Answer, Instant, KeyPrefix
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
    AdministeredId,
    ProjectIds,
    Reader,
    State,
    only_declared_parameters,
)
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.record.audit import AdminActs
from ett_service.api.regressions.answers import RegressionAnswer
from ett_service.api.regressions.listing import RegressionId, checked_id, regression_answer, unknown
from ett_service.api.regressions.mutes import MuteAnswer, mute_act
from ett_service.api.regressions.power import cohorts_of
from ett_service.core.intervals import rfc3339
from ett_service.core.regressions.finding import Metric, SeriesCohort
from ett_service.detection.confirmation import NotComparable
from ett_service.ingest.requests import (
    NewAcknowledgement,
    NewBaseline,
    NewRegressionMute,
    NewReset,
    NewTriage,
    frame,
)
from ett_service.storage.record.audit import Action, AdminAct
from ett_service.storage.regressions import notices, nudges, regressions, tuning
from ett_service.storage.regressions.findings import Act, Regression
from ett_service.storage.regressions.notices import Muted
from ett_service.storage.regressions.nudges import CannotMove
from ett_service.storage.regressions.regressions import NotFiring

router = APIRouter(
    prefix="/v1/regressions/{regression_id}",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)

Change: TypeAlias = Callable[[Connection, int, str], Regression | None]

_REFUSALS = (400, 401, 403, 404, 408, 413, 415, 422, 503)

tuning_router = APIRouter(
    prefix="/v1/regressions/tuning",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)


class Acting:
    """A request of somebody about one regression."""

    def __init__(
        self,
        request: Request,
        regression_id: RegressionId,
        acts: AdminActs,
        project_id: AdministeredId,
        state: State,
    ) -> None:
        self._request = request
        self._regression_id = regression_id
        self.acts = acts
        self.project_id = project_id
        self.state = state

    async def read(self, kind: type[msgspec.Struct]) -> dict[str, Any]:
        """Read the members of the body."""
        body = await read_struct(self._request, self.state, kind)
        return members(body, frame(self.state.now_us()))

    def act(self, why: str | None) -> Act:
        """Return who acts now, and why."""
        return Act(self.acts.key.prefix, why or "", self.state.now_us())

    def apply(self, conn: Connection, change: Change) -> Regression:
        """Apply *change* to the regression.

        Raises:
            Problem: 404.
        """
        regression = change(conn, self.project_id, checked_id(self._regression_id))
        if regression is None:
            raise unknown()
        return regression

    def act_of(self, action: Action, body: Mapping[str, Any]) -> AdminAct:
        """Return what the audit log says of this request: all that its *body* says."""
        details = dict(body)
        if "onset" in body:
            details["onset"] = rfc3339(body["onset"])
        return AdminAct(action, self._regression_id, self.project_id, details)

    async def changed(self, change: Change, act: AdminAct) -> RegressionAnswer:
        """Apply *change* and record *act*, and answer everything about the regression after it.

        Raises:
            Problem: 404 or 409.
        """

        def work(conn: Connection) -> RegressionAnswer:
            return regression_answer(conn, self.apply(conn, change), self.state)

        try:
            return await run_in_threadpool(self.acts.write, work, act)
        except (NotFiring, CannotMove, NotComparable) as error:
            raise Problem(ProblemKind.CONFLICT, str(error)) from error


RegressionRequest = Annotated[Acting, Depends()]


@router.post(
    "/triage",
    operation_id="triage_regression",
    responses=declared(*_REFUSALS, 409),
    openapi_extra=described(NewTriage),
)
async def triage_regression(request: RegressionRequest) -> RegressionAnswer:
    """Triage a finding, in place of any earlier triage.

    `real` and `noise` determine the precision that `/metrics` shows, and the smallest change that
    counts. Nobody is notified of noise any more. With an `onset` or a `cohort` that were found
    wrongly, what fires goes on from there; another cohort is another finding, which is answered.
    """
    body = await request.read(NewTriage)
    change = partial(_triaged, body=body, act=request.act(body["why"]))
    return await request.changed(change, request.act_of(Action.REGRESSION_TRIAGED, body))


def _triaged(
    conn: Connection, project_id: int, regression_id: str, *, body: Mapping[str, Any], act: Act
) -> Regression | None:
    stored = regressions.triage(conn, project_id, regression_id, body["verdict"], act)
    if stored is not None and "onset" in body:
        stored = nudges.move_onset(conn, project_id, regression_id, body["onset"], act)
    if stored is not None and "cohort" in body:
        cohort = _searched(conn, stored, body["cohort"])
        stored = nudges.move_cohort(conn, project_id, regression_id, cohort, act)
    return stored


def _searched(conn: Connection, stored: Regression, wanted: Mapping[str, str]) -> SeriesCohort:
    """Return the cohort of these values, if the last search covered it.

    Raises:
        CannotMove: It did not.
    """
    for cohort in cohorts_of(conn, stored.project_id, stored.series.subject):
        if dict(cohort) == dict(wanted):
            return cohort
    raise CannotMove("The last search did not cover this subject in that cohort.")


@router.post(
    "/acknowledge",
    operation_id="acknowledge_regression",
    responses=declared(*_REFUSALS, 409),
    openapi_extra=described(NewAcknowledgement),
)
async def acknowledge_regression(request: RegressionRequest) -> RegressionAnswer:
    """Acknowledge a firing regression. The first acknowledgement stays."""
    body = await request.read(NewAcknowledgement)
    act = request.act(body.get("why"))
    change = partial(regressions.acknowledge, act=act)
    return await request.changed(change, request.act_of(Action.REGRESSION_ACKNOWLEDGED, body))


@router.post(
    "/accept",
    operation_id="accept_regression",
    responses=declared(*_REFUSALS),
    openapi_extra=described(NewBaseline),
)
async def accept_regression(request: RegressionRequest) -> RegressionAnswer:
    """Accept the present level as the new baseline: the regression is resolved.

    Later searches do not compare with earlier values.
    """
    body = await request.read(NewBaseline)
    act = request.act(body["why"])
    change = partial(regressions.accept, act=act)
    return await request.changed(change, request.act_of(Action.REGRESSION_ACCEPTED, body))


@router.post(
    "/mute",
    operation_id="mute_regression",
    status_code=201,
    responses=declared(*_REFUSALS, 409),
    openapi_extra=described(NewRegressionMute),
)
async def mute_regression(request: RegressionRequest) -> MuteAnswer:
    """Mute the cohort and phase of a regression until an instant.

    Without a phase, the whole cohort is muted. A regression with neither is refused with 409,
    because it would mute the whole project; use `POST /v1/regressions/mutes` for that.
    """
    body = await request.read(NewRegressionMute)
    until_us: int = body["until"]
    if until_us <= request.state.now_us():
        raise refused_window("/until")
    return await run_in_threadpool(
        request.state.store.write, lambda conn: _mute(conn, request, until_us, body["why"])
    )


def _mute(conn: Connection, request: Acting, until_us: int, why: str) -> MuteAnswer:
    now_us = request.state.now_us()
    series = request.apply(conn, regressions.get).series
    muted = Muted(dict(series.cohort), series.subject.phase, now_us, until_us)
    if not muted.cohort and not muted.phase:
        raise Problem(
            ProblemKind.CONFLICT, "It has neither a cohort nor a phase. Name what to mute."
        )
    mute = notices.add_mute(
        conn, request.project_id, muted, by=request.acts.key.prefix, why=why, now_us=now_us
    )
    request.acts.record(conn, mute_act(mute))
    return MuteAnswer.read(mute, regressions.key_names(conn, [mute.made_by]))


class TuningAnswer(Answer):
    """The verdicts on the findings of one metric, and what follows from them."""

    project: str
    metric: Metric
    real: int = Field(
        validation_alias=AliasPath("verdicts", "real"),
        description="Findings triaged as `real` in the last 180 days, since the reset.",
    )
    noise: int = Field(
        validation_alias=AliasPath("verdicts", "noise"), description="Those triaged as `noise`."
    )
    factor: float = Field(
        validation_alias=AliasPath("verdicts", "factor"),
        description="The smallest change that counts exceeds 1 by so many times what the settings "
        "say: 0.75 to 2. Over 1 after much noise, 1 without verdicts.",
    )
    reset_at: Instant | None = Field(description="Earlier verdicts do not count.")
    reset_by: KeyPrefix | None
    reset_why: str | None


class TuningList(Answer):
    """What people's verdicts change; metrics without any are left out."""

    tuning: list[TuningAnswer]


@tuning_router.get(
    "",
    operation_id="list_tuning",
    response_model=TuningList,
    responses=as_files(),
)
def list_tuning(
    conn: Reader, project_ids: ProjectIds, state: State, form: FormatParameter = "json"
) -> TuningList | Response:
    """List how people's verdicts move the smallest change that counts, by metric."""
    rows = [TuningAnswer.of(each) for each in tuning.tunings(conn, project_ids, state.now_us())]
    return listed(form, TuningList(tuning=rows), rows, of=TuningAnswer, name="tuning")


@tuning_router.post(
    "/reset",
    operation_id="reset_tuning",
    responses=declared(400, 401, 403, 404, 408, 413, 415, 422, 503),
    openapi_extra=described(NewReset),
)
async def reset_tuning(
    request: Request, acts: AdminActs, project_id: AdministeredId, state: State
) -> TuningList:
    """Ignore the verdicts on a metric so far; later ones count again."""
    body: dict[str, Any] = members(
        await read_struct(request, state, NewReset), frame(state.now_us())
    )
    act = Act(acts.key.prefix, body["why"], state.now_us())
    reset = partial(tuning.reset, project_id=project_id, metric=body["metric"], act=act)

    def work(conn: Connection) -> TuningList:
        reset(conn)
        kept = tuning.tunings(conn, [project_id], state.now_us())
        return TuningList(tuning=[TuningAnswer.of(each) for each in kept])

    admin_act = AdminAct(Action.TUNING_RESET, body["metric"], project_id, {"why": body["why"]})
    return await run_in_threadpool(acts.write, work, admin_act)
