"""What the fleet would gain if something were better."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from ett_service.api.answers import Answer, Instant, IntervalAnswer, Ratio
from ett_service.api.deps import AppParts, Reader, known_key, only_declared_parameters, require
from ett_service.api.fleet.question import Asked, AskedScope, AskedWindow, scope_of
from ett_service.api.formats import FormatParameter, as_files, listed
from ett_service.api.problems import Kind, Problem, declared, faults
from ett_service.api.rendering import interval_answer
from ett_service.api.sent import read_sent_bytes
from ett_service.api.state import Parts
from ett_service.core.intervals import HOUR_US, rfc3339
from ett_service.core.planning.scenario import (
    GRAMMAR,
    CutFailures,
    Scenario,
    UnreadableScenario,
    parse,
)
from ett_service.fleet.scope import Exclusions, Scope, Window
from ett_service.fleet.uncertainty import CONFIDENCE
from ett_service.fleet.what_if import ScenarioGain, WhatIf, what_if

router = APIRouter(
    prefix="/v1/what-if", tags=["fleet"], dependencies=[Depends(only_declared_parameters)]
)

MOST_SCENARIOS = 20
LONGEST_SCENARIO = 200

NOT_ADDITIVE = (
    "Gains do not add up: what one scenario has taken away, another cannot take again. `together` "
    "is what all of them would gain."
)

_SENT: dict[str, Any] = {
    "scenarios": ["cut pt2_compile by 40 %", "halve infra failures", "publish off the GPUs"]
}
_GAIN: dict[str, Any] = {
    "scenarios": ["cut infra failures by 50 %"],
    "points": 0.83,
    "points_interval": {"low": 0.61, "high": 1.07},
    "ett_ratio": 0.8923,
    "gpu_hours": 3120.5,
    "gpu_hours_interval": {"low": 2290.0, "high": 4010.0},
    "money": 7801.25,
    "failures": 41,
    "jobs": 33,
    "assumptions": [parse("halve infra failures").assumption],
}
_EXAMPLE: dict[str, Any] = {
    "from": "2026-03-02T00:00:00.000000Z",
    "to": "2026-03-09T00:00:00.000000Z",
    "where": {},
    "exclusions": "left_out",
    "currency": "USD",
    "confidence": CONFIDENCE,
    "before": {"ett_ratio": 0.884, "gpu_hours": 250_000.0},
    "jobs": 120,
    "jobs_read": 120,
    "jobs_without_accelerators": 0,
    "gains": [_GAIN],
    "together": _GAIN,
    "additive": False,
    "note": NOT_ADDITIVE,
}


class BeforeAnswer(Answer):
    """The window as it was."""

    ett_ratio: Ratio = Field(description="Weighted by accelerators.")
    gpu_hours: float = Field(description="Accelerators' hours that were held.")


class WhatIfGainAnswer(Answer):
    """What one scenario would have gained, or several together."""

    scenarios: list[str]
    points: float = Field(description="By how many percentage points ETT% would be higher.")
    points_interval: IntervalAnswer | None = Field(description="Null with fewer than two jobs.")
    ett_ratio: Ratio = Field(description="What it would be.")
    gpu_hours: float = Field(description="Held accelerators' hours that would not be needed.")
    gpu_hours_interval: IntervalAnswer | None = Field(description="Null with fewer than two jobs.")
    money: float | None = Field(
        description="What those hours cost; null where any of them has no price."
    )
    failures: int | None = Field(
        description="That ended in the window, any of which might not have happened; null if the "
        "scenario is of none."
    )
    jobs: int = Field(description="Of those read: in which something would go.")
    assumptions: list[str]


class WhatIfAnswer(Answer):
    """Gains, the largest first."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    from_at: Instant = Field(alias="from")
    to: Instant
    where: dict[str, list[str]]
    exclusions: Exclusions
    currency: str
    confidence: float = Field(description="Of the intervals: a bootstrap over jobs.")
    before: BeforeAnswer
    jobs: int = Field(description="With time in the window.")
    jobs_read: int = Field(
        description="Where it is less, a sample drawn by chance stands for all: gains are those of "
        "its jobs, times all time over theirs."
    )
    jobs_without_accelerators: int = Field(description="Of those read: they weigh nothing.")
    gains: list[WhatIfGainAnswer]
    together: WhatIfGainAnswer
    additive: bool = Field(description="Always false.")
    note: str


class WhatIfQuestion(Answer):
    """Scenarios, a line each."""

    model_config = ConfigDict(strict=True, json_schema_extra={"example": _SENT})

    scenarios: list[Annotated[str, Field(max_length=LONGEST_SCENARIO)]] = Field(
        min_length=1, max_length=MOST_SCENARIOS, description="; ".join(GRAMMAR)
    )


_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": WhatIfQuestion.model_json_schema(), "example": _SENT}
        },
    }
}


@router.get(
    "",
    operation_id="read_what_if",
    response_model=WhatIfAnswer,
    responses={**as_files(), **declared(401, 403, 404, 422, 503)},
)
def read_what_if(
    scope: AskedScope,
    window: AskedWindow,
    conn: Reader,
    parts: AppParts,
    scenario: Annotated[
        list[Annotated[str, Field(max_length=LONGEST_SCENARIO)]],
        Query(
            min_length=1,
            max_length=MOST_SCENARIOS,
            description="; ".join(GRAMMAR),
            examples=[["halve infra failures"]],
        ),
    ],
    form: FormatParameter = "json",
) -> WhatIfAnswer | Response:
    """Tell what each scenario would have gained in the window, the largest gain first.

    It is recomputed from the ledgers of the window's jobs. A failure that does not happen takes
    its silent tail, its recovery and the training repeated after it along.
    """
    scenarios = [_parsed(text, f"/query/scenario/{place}") for place, text in enumerate(scenario)]
    told = what_if(conn, scope, window, scenarios, parts.economy)
    answer = _answer(scope, window, parts, told)
    return listed(form, answer, answer.gains, of=WhatIfGainAnswer, name="what-if")


def _scope_of_key(request: Request, parts: AppParts, asked: Annotated[Asked, Depends()]) -> Scope:
    # Its own connection, given back before the body is read: a slow sender must not hold one.
    with parts.store.reading() as conn:
        return scope_of(asked, require(known_key(request, conn), "read", "fleet"), conn)


@router.post(
    "",
    operation_id="ask_what_if",
    responses=declared(400, 401, 403, 404, 408, 413, 415, 422, 503),
    openapi_extra=_BODY,
)
async def ask_what_if(
    request: Request,
    scope: Annotated[Scope, Depends(_scope_of_key)],
    window: AskedWindow,
    parts: AppParts,
) -> WhatIfAnswer:
    """Tell the same of the scenarios in the body."""
    body = await read_sent_bytes(request, parts)
    return await run_in_threadpool(_asked, scope, window, parts, _scenarios(body))


def _scenarios(body: bytes) -> list[Scenario]:
    try:
        question = WhatIfQuestion.model_validate_json(body)
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False)
        if wrong[0]["type"] == "json_invalid":
            raise Problem(Kind.MALFORMED_JSON) from error
        raise Problem(Kind.VALIDATION_FAILED, errors=faults(wrong)) from error
    return [_parsed(text, f"/scenarios/{place}") for place, text in enumerate(question.scenarios)]


def _parsed(text: str, pointer: str) -> Scenario:
    try:
        return parse(text)
    except UnreadableScenario as unreadable:
        errors = [{"code": "unreadable_scenario", "pointer": pointer}]
        raise Problem(Kind.VALIDATION_FAILED, str(unreadable), errors=errors) from unreadable


def _asked(
    scope: Scope, window: Window, parts: Parts, scenarios: Sequence[Scenario]
) -> WhatIfAnswer:
    with parts.store.reading() as conn:
        told = what_if(conn, scope, window, scenarios, parts.economy)
    return _answer(scope, window, parts, told)


def _answer(scope: Scope, window: Window, parts: Parts, told: WhatIf) -> WhatIfAnswer:
    return WhatIfAnswer(
        **{"from": rfc3339(window.from_us)},
        to=rfc3339(window.to_us),
        where={name: sorted(values) for name, values in sorted(scope.where.items())},
        exclusions=scope.exclusions,
        currency=parts.economy.currency,
        confidence=CONFIDENCE,
        before=BeforeAnswer(
            ett_ratio=told.before.ett_ratio, gpu_hours=told.before.gpu_us / HOUR_US
        ),
        jobs=told.jobs,
        jobs_read=told.read,
        jobs_without_accelerators=told.jobs_without_accelerators,
        gains=[_gain(gain, told) for gain in told.gains],
        together=_gain(told.together, told),
        additive=False,
        note=NOT_ADDITIVE,
    )


def _gain(gain: ScenarioGain, told: WhatIf) -> WhatIfGainAnswer:
    of_failures = any(isinstance(scenario, CutFailures) for scenario in gain.scenarios)
    return WhatIfGainAnswer(
        scenarios=[scenario.text for scenario in gain.scenarios],
        points=100 * gain.ratio_gained(told.before),
        points_interval=interval_answer(gain.ratio_interval, 100),
        ett_ratio=gain.after.ett_ratio,
        gpu_hours=gain.gpu_us / HOUR_US,
        gpu_hours_interval=interval_answer(gain.gpu_us_interval, 1 / HOUR_US),
        money=gain.money,
        failures=gain.failures if of_failures else None,
        jobs=gain.jobs,
        assumptions=list(dict.fromkeys(scenario.assumption for scenario in gain.scenarios)),
    )
