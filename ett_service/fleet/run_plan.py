"""Puts a planned run together from what was asked and what the settings know, and prices it."""

import math
from dataclasses import dataclass
from typing import Literal

from ett_service.core.errors import OutOfDomain
from ett_service.core.ledger.job_results import training_flops
from ett_service.core.planning.run import Run, Spot, on_demand_cost, spot_cost, spot_gpu_hours
from ett_service.fleet.economy import Economy
from ett_service.fleet.scope import BadQuestion

ASSUMPTION = (
    "Accelerators run at MFU times their peak while they train, which is ETT% of their time, and "
    "all of their time is paid. Interruptions come at random; each costs a restart and the "
    "unsaved training, on top of the losses in ETT%."
)

_PARAMETERS = {
    "mfu_ratio": "mfu",
    "ett_ratio": "ett",
    "discount_ratio": "discount",
    "mtbi_seconds": "seconds_between_interruptions",
    "price_an_hour": "price",
}

MOST_GPU_HOURS = 1e15
"""A run of more is a slip of the pen."""

EttFrom = Literal["given", "measured", "ideal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """What is known of a run before it begins; names are those of the parameters."""

    accelerators: int
    mfu: float
    flops: float | None = None
    parameters: int | None = None
    tokens: int | None = None
    hardware: str | None = None
    precision: str = "bf16"
    peak_teraflops: float | None = None
    price: float | None = None
    ett: float | None = None
    discount: float | None = None
    seconds_between_interruptions: float | None = None
    restart_seconds: float = 0.0
    interval_seconds: float | None = None
    save_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SpotPlan:
    """The run on machines that are taken away; infinite where it would never end."""

    spot: Spot
    gpu_hours: float
    wall_hours: float
    cost: float | None

    @property
    def break_even_seconds(self) -> float:
        """Mean time between interruptions at which spot costs what demand does."""
        rate = self.spot.break_even_rate
        return 1 / rate if rate else math.inf


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run takes; money is None without a price."""

    run: Run
    ett_from: EttFrom
    price: float | None  #: for an hour of one accelerator
    tokens: int | None
    on_demand_cost: float | None
    spot: SpotPlan | None

    @property
    def cost_per_million_tokens(self) -> float | None:
        """On demand."""
        if self.on_demand_cost is None or not self.tokens:
            return None
        return self.on_demand_cost / self.tokens * 1e6


def plan(
    question: PlanQuestion, economy: Economy, now_us: int, measured_ett: float | None = None
) -> Plan:
    """Plan a run at the prices of the instant *now_us*.

    ETT% is the one that was asked for, else *measured_ett*, else 1.

    Raises:
        BadQuestion: Something needed is neither asked nor known, or out of bounds.
    """
    try:
        return _plan(question, economy, now_us, measured_ett)
    except OutOfDomain as error:
        name = _PARAMETERS.get(error.name, error.name)
        raise BadQuestion(name, "out_of_bounds", f"It must {error.must}.") from error


def _plan(
    question: PlanQuestion, economy: Economy, now_us: int, measured_ett: float | None
) -> Plan:
    run = _run(question, economy, measured_ett)
    price = question.price
    if price is None and question.hardware is not None:
        per_gpu_hour = economy.price(question.hardware, now_us)
        price = None if per_gpu_hour is None else float(per_gpu_hour)
    ett_from: EttFrom = "ideal" if measured_ett is None else "measured"
    return Plan(
        run=run,
        ett_from=ett_from if question.ett is None else "given",
        price=price,
        tokens=question.tokens,
        on_demand_cost=None if price is None else on_demand_cost(run, price),
        spot=_spot_plan(question, run, price),
    )


def _run(question: PlanQuestion, economy: Economy, measured_ett: float | None) -> Run:
    ett = measured_ett if question.ett is None else question.ett
    if question.ett is None and measured_ett == 0:
        raise BadQuestion("ett", "not_measured", "The cohort has trained nothing: give a share.")
    run = Run(
        flops=_flops(question),
        peak_teraflops=_peak_teraflops(question, economy),
        mfu_ratio=question.mfu,
        accelerators=question.accelerators,
        ett_ratio=1.0 if ett is None else ett,
    )
    if run.gpu_hours > MOST_GPU_HOURS:
        raise BadQuestion(
            "flops", "out_of_bounds", f"The run may take at most {MOST_GPU_HOURS:.0e} GPU-hours."
        )
    return run


def _flops(question: PlanQuestion) -> float:
    if question.flops is not None:
        return question.flops
    if question.parameters is None or question.tokens is None:
        raise BadQuestion("flops", "missing", "Give it, or both `parameters` and `tokens`.")
    return training_flops(question.parameters, question.tokens)


def _peak_teraflops(question: PlanQuestion, economy: Economy) -> float:
    if question.peak_teraflops is not None:
        return question.peak_teraflops
    teraflops = None
    if question.hardware is not None:
        teraflops = economy.peak_teraflops(question.hardware, question.precision)
    if teraflops is None:
        raise BadQuestion(
            "peak_teraflops",
            "missing",
            "Give it, or a `hardware` whose peak rate at `precision` is known or in the settings.",
        )
    return teraflops


def _spot_plan(question: PlanQuestion, run: Run, price: float | None) -> SpotPlan | None:
    if question.discount is None:
        return None
    if question.interval_seconds is None and not question.save_seconds:
        raise BadQuestion(
            "interval_seconds", "missing", "Give it, or `save_seconds`, whose best interval it is."
        )
    between = question.seconds_between_interruptions
    spot = Spot(
        discount_ratio=question.discount,
        interval_seconds=question.interval_seconds,
        mtbi_seconds=math.inf if between is None else between,
        restart_seconds=question.restart_seconds,
        save_seconds=question.save_seconds,
    )
    hours = spot_gpu_hours(run, spot)
    cost = None if price is None else spot_cost(run, spot, price)
    return SpotPlan(spot, hours, hours / run.accelerators, cost)
