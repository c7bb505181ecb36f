"""How ETT% would change with scale, and what a planned run would take and cost."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import AliasPath, Field, WithJsonSchema
from sqlalchemy import Connection

from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    Finite,
    Of,
    QuestionAnswer,
    Ratio,
    Sources,
    finite,
)
from ett_service.api.bodies import OF_WINDOW, FormatParameter, as_files, listed
from ett_service.api.deps import (
    Reader,
    ScopeParameter,
    State,
    Text,
    WindowParameter,
    at_once,
    only_declared_parameters,
)
from ett_service.api.problems import declared
from ett_service.core.fleet.measures import WEIGHTED
from ett_service.core.fleet.totals import Totals
from ett_service.fleet.projection import (
    RUN_ASSUMPTION,
    SCALE_ASSUMPTION,
    SCALES,
    Counted,
    EttFrom,
    Input,
    Inputs,
    Plan,
    PlanQuestion,
    measured,
    plan,
    project,
)
from ett_service.fleet.scope import BadQuestion, Scope, Window
from ett_service.fleet.uncertainty import CONFIDENCE
from ett_service.storage.fleet import rollups

router = APIRouter(
    prefix="/v1", tags=["decisions"], dependencies=[Depends(only_declared_parameters)]
)

MOST_SCALES = 100
MOST_ACCELERATORS = 10**7

Rate = Annotated[float | None, Query(ge=0, le=1e6, allow_inf_nan=False)]
Duration = Annotated[float | None, Query(ge=0, le=1e9, allow_inf_nan=False)]

_LARGEST = 2**53
_MEASURES = tuple(WEIGHTED.categories.values())

Positive = Annotated[float | None, Query(gt=0, le=1e30, allow_inf_nan=False)]
Share = Annotated[float | None, Query(gt=0, le=1, allow_inf_nan=False)]
Count = Annotated[int | None, Query(gt=0, le=_LARGEST)]
SecondsOrZero = Annotated[float, Query(ge=0, le=1e9, allow_inf_nan=False)]
PositiveSeconds = Annotated[float | None, Query(gt=0, le=1e9, allow_inf_nan=False)]


class InputAnswer(Answer):
    """An input of the projection."""

    value: float | None = Field(description="Null where it is neither measured nor given.")
    n: int | None = Field(description="The number of observations; null for a given value.")
    low: float | None = Field(description="Null except for a measured rate.")
    high: float | None


class InputsAnswer(Answer):
    """The inputs that every scale shares."""

    failures_counted: Counted
    failures_per_node_day: InputAnswer
    save_seconds: InputAnswer = Field(validation_alias="save")
    restart_seconds: InputAnswer = Field(validation_alias="restart")
    accelerators_per_node: int
    missing: list[str] = Field(description="Parameters to give, since nothing was measured.")


class ScaleAnswer(Answer):
    """The projection for a number of accelerators."""

    accelerators: int
    mtbf_seconds: Finite = Field(
        validation_alias="mtbf", description="Of the whole run; null where nothing fails."
    )
    interval_seconds: Finite = Field(
        validation_alias="interval",
        description="Between checkpoints: the given one, else the best. Null: never save.",
    )
    ett_ratio: Ratio = Field(description="The renewal form, exact for the assumed model.")
    low: float | None = Field(description="For the highest likely rate of failures.")
    high: float | None
    published_ratio: float = Field(
        description="The short published form; below 0 where it does not hold."
    )
    published_error: float = Field(description="`published_ratio` minus `ett_ratio`.")
    best_interval_seconds: Finite = Field(validation_alias="best_interval")
    best_ett_ratio: Ratio


class ProjectionAnswer(QuestionAnswer, ComputedAnswer):
    """ETT% by scale, from measured and given inputs."""

    inputs: InputsAnswer
    points: list[ScaleAnswer] = Field(description="Empty while inputs are missing.")
    confidence: Annotated[float, Of(lambda _: CONFIDENCE)] = Field(description="Of the bounds.")
    assumption: Annotated[str, Of(lambda _: SCALE_ASSUMPTION)]


@dataclass(frozen=True, kw_only=True)
class GivenInputs:
    """The inputs in the query, which replace measured ones."""

    failures_per_node_day: Rate = None
    save_seconds: Annotated[Duration, Query(description="How long a save blocks the loop.")] = None
    restart_seconds: Annotated[
        Duration, Query(description="From a failure until training resumes.")
    ] = None
    interval_seconds: Annotated[
        float | None,
        Query(gt=0, le=1e9, allow_inf_nan=False, description="By default the best at each scale."),
    ] = None

    def over(self, inputs: Inputs) -> Inputs:
        """Replace measured inputs with given ones."""
        return replace(
            inputs,
            failures_per_node_day=_either(self.failures_per_node_day, inputs.failures_per_node_day),
            save=_either(self.save_seconds, inputs.save),
            restart=_either(self.restart_seconds, inputs.restart),
            interval=self.interval_seconds,
        )


def _either(given: float | None, measured_input: Input) -> Input:
    return measured_input if given is None else Input(given)


_NUMBER = r"\s*0{0,6}(?:[1-9][0-9]{0,6}|10000000)\s*"
_NUMBERS = {
    "type": "string",
    "maxLength": 1000,
    "pattern": f"^{_NUMBER}(?:,{_NUMBER}){{0,{MOST_SCALES - 1}}}$",
}


def _scales(
    accelerators: Annotated[
        Annotated[str, WithJsonSchema(_NUMBERS)] | None,
        Query(
            description="Numbers separated by commas; by default 8 and its doublings to 131,072.",
            max_length=1000,
            examples=["1024,16384"],
        ),
    ] = None,
) -> tuple[int, ...]:
    if accelerators is None:
        return SCALES
    texts = accelerators.split(",")
    if len(texts) > MOST_SCALES:
        raise BadQuestion("accelerators", "too_many", f"There may be {MOST_SCALES} numbers.")
    return tuple(map(_scale, texts))


def _scale(text: str) -> int:
    digits = text.strip().lstrip("0")
    is_whole = (
        digits.isascii() and digits.isdigit() and len(digits) < len(str(10 * MOST_ACCELERATORS))
    )
    if not is_whole or not 1 <= int(digits) <= MOST_ACCELERATORS:
        raise BadQuestion(
            "accelerators", "bad_number", f"Each is a whole number from 1 to {MOST_ACCELERATORS}."
        )
    return int(digits)


@router.get(
    "/fleet/projection",
    operation_id="project_fleet",
    response_model=ProjectionAnswer,
    responses=as_files(OF_WINDOW),
)
def project_fleet(
    scope: ScopeParameter,
    window: WindowParameter,
    given: Annotated[GivenInputs, Depends(at_once(GivenInputs))],
    scales: Annotated[tuple[int, ...], Depends(_scales)],
    state: State,
    conn: Reader,
    *,
    failures: Annotated[
        Counted,
        Query(
            description="The failures that scale with nodes: those of origin `infra` (`nodes`), "
            "preemptions too (`infra`), or all."
        ),
    ] = "nodes",
    form: FormatParameter = "json",
) -> ProjectionAnswer | Response:
    """Project the ETT% of a long run by its scale, at the measured rate of failures.

    Failures, saves and restarts are measured in the window unless they are given. If all of them
    are given, the window does not matter.
    """
    cohorts = rollups.totals(conn, scope.cohorts, window)
    totals = sum(cohorts.values(), Totals.ZERO)
    inputs = given.over(measured(totals, failures, state.economy.accelerators_per_node))
    answer = ProjectionAnswer.of(
        scope,
        window,
        as_of=state.now_us(),
        inputs=InputsAnswer.of(inputs, failures_counted=failures),
        points=project(inputs, scales),
    )
    return listed(form, answer, answer.points, of=ScaleAnswer, name="projection")


class MachinesAnswer(Answer):
    """The run on one kind of machines; null where it would never end."""

    gpu_hours: Finite
    wall_hours: Finite
    cost: Finite = Field(description="Null, too, without a price.")


def _saved(source: Any) -> float | None:
    cost = finite(source.cost)
    on_demand = source.on_demand_cost
    return None if cost is None or on_demand is None else on_demand - cost


class SpotAnswer(MachinesAnswer, ComputedAnswer):
    """The run on cheaper machines that can be taken away."""

    discount: Ratio = Field(validation_alias=AliasPath("spot", "discount_ratio"))
    interval_seconds: Finite = Field(
        validation_alias=AliasPath("spot", "interval"), description="Null: never save."
    )
    seconds_between_interruptions: Finite = Field(
        validation_alias=AliasPath("spot", "mtbi_seconds"), description="Null: never interrupted."
    )
    kept_ratio: Ratio = Field(
        validation_alias=AliasPath("spot", "kept_ratio"),
        description="The share of the time that interruptions leave.",
    )
    saved: Annotated[float | None, Of(_saved)] = Field(description="Cost on demand minus this one.")
    break_even_seconds_between_interruptions: Finite = Field(
        validation_alias="break_even_seconds",
        description="With more frequent interruptions, spot costs more than on demand. Null: it "
        "costs as much even without interruptions. 0: it is cheaper however frequent they are.",
    )


def _spot(source: Any) -> Sources | None:
    if source.spot is None:
        return None
    return Sources((source.spot,), {"on_demand_cost": source.on_demand_cost})


class EstimateAnswer(ComputedAnswer):
    """What a planned run takes, and the assumptions behind it."""

    flops: float
    peak_teraflops: float = Field(description="Of one accelerator, per second.")
    mfu: Ratio = Field(validation_alias="mfu_ratio")
    accelerators: int
    ett_ratio: Ratio
    ett_from: EttFrom = Field(
        description="`given`, `measured` in the window, or `ideal`: 1, as if nothing were lost."
    )
    measured_jobs: Annotated[
        int | None,
        Of(lambda source: source.jobs if source.ett_from == "measured" else None),
    ] = Field(description="The number of jobs that it was measured over.")
    useful_ratio: Annotated[Ratio, Of(lambda run: run.ett_ratio * run.mfu_ratio)] = Field(
        description="ETT% x MFU: the useful share of the paid peak."
    )
    currency: str
    price_per_gpu_hour: float | None = Field(validation_alias="price")
    on_demand: Annotated[
        MachinesAnswer, Of(lambda source: Sources((source.run,), {"cost": source.on_demand_cost}))
    ]
    cost_per_million_tokens: float | None = Field(description="On demand; null without tokens.")
    spot: Annotated[SpotAnswer | None, Of(_spot)] = Field(
        description="Null unless a discount was given."
    )
    assumption: Annotated[str, Of(lambda _: RUN_ASSUMPTION)]

    @classmethod
    def read(cls, planned: Plan, currency: str, jobs: int | None = None) -> "EstimateAnswer":
        """Read a plan, whose ETT% was measured over so many *jobs*."""
        return cls.of(planned, planned.run, currency=currency, jobs=jobs)


@dataclass(frozen=True, kw_only=True)
class RunQuery:
    """The planned run, as it stands in the query."""

    accelerators: Annotated[int, Query(gt=0, le=10**7)]
    mfu: Annotated[float, Query(gt=0, le=1, allow_inf_nan=False)]
    flops: Annotated[Positive, Query(description="By default 6 x `parameters` x `tokens`.")] = None
    parameters: Count = None
    tokens: Count = None
    hardware: Text = None
    precision: Annotated[str, Query(max_length=50, pattern=r"^[^\x00]*$")] = "bf16"
    peak_teraflops: Annotated[
        Positive, Query(description="By default the peak of `hardware` at `precision`.")
    ] = None
    price: Annotated[
        float | None,
        Query(
            ge=0,
            le=1e9,
            allow_inf_nan=False,
            description="Of an accelerator hour; by default today's price of `hardware` in the "
            "settings.",
        ),
    ] = None
    ett: Annotated[Share, Query(description="By default measured, if `measured` is set.")] = None
    discount: Annotated[
        float | None, Query(ge=0, le=1, allow_inf_nan=False, description="Of spot machines.")
    ] = None
    seconds_between_interruptions: PositiveSeconds = None
    restart_seconds: SecondsOrZero = 0.0
    interval_seconds: Annotated[
        PositiveSeconds,
        Query(description="Between checkpoints; by default the best for `save_seconds`."),
    ] = None
    save_seconds: SecondsOrZero = 0.0

    @property
    def question(self) -> PlanQuestion:
        """The same, as the plan takes it."""
        return PlanQuestion(**{each.name: getattr(self, each.name) for each in fields(self)})


@router.get(
    "/estimate", operation_id="estimate_run", responses=declared(401, 403, 404, 410, 422, 503)
)
def estimate_run(
    query: Annotated[RunQuery, Depends(at_once(RunQuery))],
    scope: ScopeParameter,
    window: WindowParameter,
    state: State,
    conn: Reader,
    *,
    measured: Annotated[
        bool,
        Query(description="Use the ETT% of the window's jobs that match `where`."),
    ] = False,
) -> EstimateAnswer:
    """Estimate a planned run in accelerator hours and money.

    Prices and peak rates come from the settings unless they are given.
    """
    totals = _totals(conn, scope, window) if measured and query.ett is None else None
    ett = None if totals is None else totals.ett_ratio
    planned = plan(query.question, state.economy, state.now_us(), ett)
    jobs = None if totals is None else totals[rollups.JOBS]
    return EstimateAnswer.read(planned, state.economy.currency, jobs)


def _totals(conn: Connection, scope: Scope, window: Window) -> Totals:
    cohorts = rollups.totals(conn, scope.cohorts, window, measures=_MEASURES, tallies=False)
    return sum(cohorts.values(), Totals.ZERO)
