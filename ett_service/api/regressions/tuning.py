"""How people's verdicts move the smallest change that counts, and how to take that back."""

from functools import partial
from typing import Any

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
)
from ett_service.api.deps import (
    AdministeredId,
    ProjectIds,
    Reader,
    State,
    only_declared_parameters,
)
from ett_service.api.problems import declared
from ett_service.api.record.acts import AdminActs
from ett_service.core.regressions.finding import Metric
from ett_service.ingest.requests import NewReset, frame
from ett_service.storage.record.audit import Action, AdminAct
from ett_service.storage.regressions import tuning
from ett_service.storage.regressions.regressions import Act

router = APIRouter(
    prefix="/v1/regressions/tuning",
    tags=["regressions"],
    dependencies=[Depends(only_declared_parameters)],
)


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


@router.get(
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


@router.post(
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
