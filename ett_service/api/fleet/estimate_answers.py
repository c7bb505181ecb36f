"""Answers about planned runs."""

import math
from typing import Any

from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, Ratio
from ett_service.fleet.run_plan import ASSUMPTION, EttFrom, Plan, SpotPlan

_EXAMPLE: dict[str, Any] = {
    "flops": 5.04e21,
    "peak_teraflops": 312.0,
    "mfu": 0.42,
    "accelerators": 64,
    "ett_ratio": 0.9,
    "ett_from": "given",
    "measured_jobs": None,
    "useful_ratio": 0.378,
    "currency": "USD",
    "price_per_gpu_hour": 3.5,
    "on_demand": {"gpu_hours": 11870.84, "wall_hours": 185.48, "cost": 41547.95},
    "cost_per_million_tokens": None,
    "spot": {
        "discount": 0.65,
        "interval_seconds": 1800.0,
        "seconds_between_interruptions": 21600.0,
        "kept_ratio": 0.9167,
        "gpu_hours": 12949.9,
        "wall_hours": 202.34,
        "cost": 15863.6,
        "saved": 25684.3,
        "break_even_seconds_between_interruptions": 1236.0,
    },
    "assumption": "Accelerators run at MFU times their peak while they train (...)",
}


class MachinesAnswer(Answer):
    """What the run takes on one kind of machines; null where it would never end."""

    gpu_hours: float | None
    wall_hours: float | None
    cost: float | None = Field(description="Null, too, without a price.")


class SpotAnswer(MachinesAnswer):
    """The run on machines that are cheaper and taken away."""

    discount: Ratio
    interval_seconds: float | None = Field(description="Null: never to save.")
    seconds_between_interruptions: float | None = Field(description="Null: never.")
    kept_ratio: Ratio = Field(description="The share of the time that interruptions leave.")
    saved: float | None = Field(description="Cost on demand minus this one.")
    break_even_seconds_between_interruptions: float | None = Field(
        description="More often interrupted, spot costs more than demand. Null: it costs as much "
        "even if never interrupted. 0: however often."
    )


class EstimateAnswer(Answer):
    """What a planned run takes, and from what that follows."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    flops: float
    peak_teraflops: float = Field(description="Of one accelerator, a second.")
    mfu: Ratio
    accelerators: int
    ett_ratio: Ratio
    ett_from: EttFrom = Field(
        description="`given`, `measured` in the window, or `ideal`: 1, as if nothing were lost."
    )
    measured_jobs: int | None = Field(description="Over how many jobs it was measured.")
    useful_ratio: Ratio = Field(description="ETT% x MFU: the useful share of the paid peak.")
    currency: str
    price_per_gpu_hour: float | None
    on_demand: MachinesAnswer
    cost_per_million_tokens: float | None = Field(description="On demand; null without tokens.")
    spot: SpotAnswer | None = Field(description="Null unless a discount was given.")
    assumption: str


def estimate_answer(found: Plan, currency: str, measured_jobs: int | None = None) -> EstimateAnswer:
    """Answer a plan."""
    run = found.run
    return EstimateAnswer(
        flops=run.flops,
        peak_teraflops=run.peak_teraflops,
        mfu=run.mfu_ratio,
        accelerators=run.accelerators,
        ett_ratio=run.ett_ratio,
        ett_from=found.ett_from,
        measured_jobs=measured_jobs if found.ett_from == "measured" else None,
        useful_ratio=run.ett_ratio * run.mfu_ratio,
        currency=currency,
        price_per_gpu_hour=found.price,
        on_demand=MachinesAnswer(
            gpu_hours=run.gpu_hours, wall_hours=run.wall_hours, cost=found.on_demand_cost
        ),
        cost_per_million_tokens=found.cost_per_million_tokens,
        spot=None if found.spot is None else _spot(found.spot, found.on_demand_cost),
        assumption=ASSUMPTION,
    )


def finite(value: float | None) -> float | None:
    """Pass what JSON can hold: it knows no infinity."""
    return None if value is None or math.isinf(value) else value


def _spot(plan: SpotPlan, on_demand_cost: float | None) -> SpotAnswer:
    spot, cost = plan.spot, finite(plan.cost)
    return SpotAnswer(
        discount=spot.discount_ratio,
        interval_seconds=finite(spot.interval),
        seconds_between_interruptions=finite(spot.mtbi_seconds),
        kept_ratio=spot.kept_ratio,
        gpu_hours=finite(plan.gpu_hours),
        wall_hours=finite(plan.wall_hours),
        cost=cost,
        saved=None if cost is None or on_demand_cost is None else on_demand_cost - cost,
        break_even_seconds_between_interruptions=finite(plan.break_even_seconds),
    )
