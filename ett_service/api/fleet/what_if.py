"""What the fleet would gain if something improved."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AliasPath, BeforeValidator, Field
from starlette.concurrency import run_in_threadpool

from ett_service.api.answers import (
    Answer,
    ComputedAnswer,
    Instant,
    IntervalAnswer,
    Of,
    Ratio,
    SortedValues,
    Sources,
    end_of,
    scaled,
    start_of,
)
from ett_service.api.bodies import (
    OF_WINDOW,
    FormatParameter,
    RequestBody,
    as_files,
    described,
    listed,
    read_model,
)
from ett_service.api.deps import (
    Reader,
    ScopeParameter,
    ScopeQuery,
    State,
    WindowParameter,
    at_once,
    key_of,
    only_declared_parameters,
    require,
    scope_of,
)
from ett_service.api.problems import Problem, ProblemKind, declared
from ett_service.api.state import AppState
from ett_service.core.intervals import HOUR_US
from ett_service.core.ledger.results import FORMULA_VERSION
from ett_service.core.planning.scenario import (
    GRAMMAR,
    CutFailures,
    Scenario,
    UnreadableScenario,
    parse,
)
from ett_service.fleet.scope import Exclusions, Scope, Window
from ett_service.fleet.uncertainty import CONFIDENCE
from ett_service.fleet.what_if import WhatIf, what_if

router = APIRouter(
    prefix="/v1/what-if", tags=["fleet"], dependencies=[Depends(only_declared_parameters)]
)

MOST_SCENARIOS = 20
LONGEST_SCENARIO = 200

NOT_ADDITIVE = (
    "Gains do not add up: what one scenario has taken away, another cannot take again. `together` "
    "is what all of them would gain."
)

Hours = Annotated[float, BeforeValidator(lambda us: us / HOUR_US)]
ScenarioText = Annotated[str, Field(max_length=LONGEST_SCENARIO)]


class BeforeAnswer(Answer):
    """The window as it was."""

    ett_ratio: Ratio = Field(description="Weighted by accelerators.")
    gpu_hours: Hours = Field(validation_alias="gpu_us", description="Hours of held accelerators.")


def _failures(gain: Any) -> int | None:
    cuts = any(isinstance(scenario, CutFailures) for scenario in gain.scenarios)
    return gain.failures if cuts else None


class WhatIfGainAnswer(ComputedAnswer):
    """The gain of one scenario, or of several together."""

    scenarios: Annotated[list[str], Of(lambda gain: [scenario.text for scenario in gain.scenarios])]
    points: Annotated[float, Of(lambda gain: 100 * gain.ratio_gained(gain.before))] = Field(
        description="By how many percentage points ETT% would be higher."
    )
    points_interval: Annotated[IntervalAnswer | None, scaled(100)] = Field(
        validation_alias="ratio_interval", description="Null with fewer than two jobs."
    )
    ett_ratio: Ratio = Field(
        validation_alias=AliasPath("after", "ett_ratio"), description="ETT% with the scenario."
    )
    gpu_hours: Hours = Field(
        validation_alias="gpu_us", description="Held accelerator hours that would be saved."
    )
    gpu_hours_interval: Annotated[IntervalAnswer | None, scaled(1 / HOUR_US)] = Field(
        validation_alias="gpu_us_interval", description="Null with fewer than two jobs."
    )
    money: float | None = Field(
        description="The cost of those hours; null where any of them has no price."
    )
    failures: Annotated[int | None, Of(_failures)] = Field(
        description="Failures in the window that the scenario could have prevented; null if it "
        "is not about failures."
    )
    jobs: int = Field(description="Jobs that would gain, of those read.")
    assumptions: Annotated[
        list[str],
        Of(lambda gain: list(dict.fromkeys(each.assumption for each in gain.scenarios))),
    ]


def _with_before(gain: object, source: Any) -> Sources:
    return Sources((gain,), {"before": source.before})


class WhatIfAnswer(ComputedAnswer):
    """Gains, the largest first."""

    from_at: Instant = start_of()
    to: Instant = end_of()
    formula_version: int = FORMULA_VERSION
    where: Annotated[dict[str, list[str]], SortedValues]
    exclusions: Exclusions
    currency: str
    confidence: Annotated[float, Of(lambda _: CONFIDENCE)] = Field(
        description="Level of the intervals: a bootstrap over jobs."
    )
    before: BeforeAnswer
    jobs: int = Field(description="Jobs with time in the window.")
    jobs_read: int = Field(
        validation_alias="read",
        description="If fewer than `jobs`, a random sample was read. Its gains are scaled to all "
        "of the window's time.",
    )
    jobs_without_accelerators: int = Field(
        description="Of those read: jobs with unknown accelerators, which have no weight."
    )
    gains: Annotated[
        list[WhatIfGainAnswer],
        Of(lambda source: [_with_before(gain, source) for gain in source.gains]),
    ]
    together: Annotated[WhatIfGainAnswer, Of(lambda source: _with_before(source.together, source))]
    additive: Annotated[bool, Of(lambda _: False)] = Field(description="Always false.")
    note: Annotated[str, Of(lambda _: NOT_ADDITIVE)]


class WhatIfRequest(RequestBody):
    """The scenarios to evaluate."""

    points_at_bad_json = False

    scenarios: list[ScenarioText] = Field(
        min_length=1, max_length=MOST_SCENARIOS, description="; ".join(GRAMMAR)
    )


@router.get(
    "", operation_id="read_what_if", response_model=WhatIfAnswer, responses=as_files(OF_WINDOW)
)
def read_what_if(
    scope: ScopeParameter,
    window: WindowParameter,
    conn: Reader,
    state: State,
    scenario: Annotated[
        list[ScenarioText],
        Query(
            min_length=1,
            max_length=MOST_SCENARIOS,
            description="; ".join(GRAMMAR),
            examples=[["halve infra failures"]],
        ),
    ],
    form: FormatParameter = "json",
) -> WhatIfAnswer | Response:
    """Return the gain of each scenario in the window, the largest first.

    Gains are recomputed from the ledgers of the window's jobs. A prevented failure also removes
    its silent tail, its recovery and the training repeated after it.
    """
    scenarios = [_parsed(text, f"/query/scenario/{index}") for index, text in enumerate(scenario)]
    gains = what_if(conn, scope, window, scenarios, state.economy)
    answer = _answer(scope, window, state, gains)
    return listed(form, answer, answer.gains, of=WhatIfGainAnswer, name="what-if")


def _scope_of_key(
    request: Request, state: State, query: Annotated[ScopeQuery, Depends(at_once(ScopeQuery))]
) -> Scope:
    # Its own connection, given back before the body is read: a slow sender must not hold one.
    with state.store.reading() as conn:
        return scope_of(query, require(key_of(request, conn), "read", "fleet"), conn)


@router.post(
    "",
    operation_id="ask_what_if",
    summary="Evaluate Scenarios",
    responses=declared(400, 401, 403, 404, 408, 410, 413, 415, 422, 503),
    openapi_extra=described(WhatIfRequest),
)
async def ask_what_if(
    request: Request,
    scope: Annotated[Scope, Depends(_scope_of_key)],
    window: WindowParameter,
    state: State,
) -> WhatIfAnswer:
    """Return the gain of each scenario in the body, the largest first, as the GET route does."""
    body = await read_model(request, state, WhatIfRequest)
    scenarios = [_parsed(text, f"/scenarios/{index}") for index, text in enumerate(body.scenarios)]
    return await run_in_threadpool(_read_gains, scope, window, state, scenarios)


def _parsed(text: str, pointer: str) -> Scenario:
    try:
        return parse(text)
    except UnreadableScenario as error:
        errors = [{"code": "unreadable_scenario", "pointer": pointer}]
        raise Problem(ProblemKind.VALIDATION_FAILED, str(error), errors=errors) from error


def _read_gains(
    scope: Scope, window: Window, state: AppState, scenarios: Sequence[Scenario]
) -> WhatIfAnswer:
    with state.store.reading() as conn:
        gains = what_if(conn, scope, window, scenarios, state.economy)
    return _answer(scope, window, state, gains)


def _answer(scope: Scope, window: Window, state: AppState, gains: WhatIf) -> WhatIfAnswer:
    return WhatIfAnswer.of(gains, scope, window, currency=state.economy.currency)
