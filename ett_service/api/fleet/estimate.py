"""What a planned run would take: accelerator hours and money, on demand and on spot machines."""

from dataclasses import dataclass, fields
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlalchemy import Connection

from ett_service.api.deps import AppParts, Reader, only_declared_parameters
from ett_service.api.fleet.estimate_answers import EstimateAnswer, estimate_answer
from ett_service.api.fleet.question import AskedScope, AskedWindow
from ett_service.api.parameters import Text
from ett_service.api.problems import declared
from ett_service.core.fleet.totals import WEIGHTED, Totals
from ett_service.fleet.run_plan import PlanQuestion, plan
from ett_service.fleet.scope import Scope, Window
from ett_service.storage.fleet import rollups

router = APIRouter(
    prefix="/v1", tags=["decisions"], dependencies=[Depends(only_declared_parameters)]
)

_LARGEST = 2**53
_MEASURES = tuple(WEIGHTED.categories.values())

Positive = Annotated[float | None, Query(gt=0, le=1e30, allow_inf_nan=False)]
Share = Annotated[float | None, Query(gt=0, le=1, allow_inf_nan=False)]
Count = Annotated[int | None, Query(gt=0, le=_LARGEST)]
Length = Annotated[float, Query(ge=0, le=1e9, allow_inf_nan=False)]
MaybeLength = Annotated[float | None, Query(gt=0, le=1e9, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class AskedRun:
    """The run, as it stands in the query."""

    accelerators: Annotated[int, Query(gt=0, le=10**7)]
    mfu: Annotated[float, Query(gt=0, le=1, allow_inf_nan=False)]
    flops: Annotated[Positive, Query(description="Else 6 x `parameters` x `tokens`.")] = None
    parameters: Count = None
    tokens: Count = None
    hardware: Text = None
    precision: Annotated[str, Query(max_length=50, pattern=r"^[^\x00]*$")] = "bf16"
    peak_teraflops: Annotated[
        Positive, Query(description="Else that of `hardware` at `precision`.")
    ] = None
    price: Annotated[
        float | None,
        Query(
            ge=0,
            le=1e9,
            allow_inf_nan=False,
            description="Of an accelerator hour; else that of `hardware` in the settings today.",
        ),
    ] = None
    ett: Annotated[Share, Query(description="Else the measured one, with `measured`.")] = None
    discount: Annotated[
        float | None, Query(ge=0, le=1, allow_inf_nan=False, description="Of spot machines.")
    ] = None
    seconds_between_interruptions: MaybeLength = None
    restart_seconds: Length = 0.0
    interval_seconds: Annotated[
        MaybeLength, Query(description="Between checkpoints; else the best for `save_seconds`.")
    ] = None
    save_seconds: Length = 0.0

    @property
    def question(self) -> PlanQuestion:
        """The same, as the plan takes it."""
        return PlanQuestion(**{each.name: getattr(self, each.name) for each in fields(self)})


@router.get("/estimate", operation_id="estimate_run", responses=declared(401, 403, 404, 422, 503))
def estimate_run(
    asked: Annotated[AskedRun, Depends()],
    scope: AskedScope,
    window: AskedWindow,
    parts: AppParts,
    conn: Reader,
    *,
    measured: Annotated[
        bool,
        Query(description="Whether ETT% is that of the jobs of the window that `where` names."),
    ] = False,
) -> EstimateAnswer:
    """Tell what a planned run would take, in accelerator hours and money.

    Prices and peak rates are those of the settings unless they are given.
    """
    totals = _totals(conn, scope, window) if measured and asked.ett is None else None
    ett = None if totals is None else totals.ett_ratio
    found = plan(asked.question, parts.economy, parts.now_us(), ett)
    jobs = None if totals is None else totals[rollups.JOBS]
    return estimate_answer(found, parts.economy.currency, jobs)


def _totals(conn: Connection, scope: Scope, window: Window) -> Totals:
    found = rollups.totals(conn, scope.cohorts, window, measures=_MEASURES, tallies=False)
    return sum(found.values(), Totals.ZERO)
