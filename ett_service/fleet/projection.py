"""Projections: how ETT% would move with scale, and what a planned run would take and cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ett_service.core.errors import OutOfDomain
from ett_service.core.fleet.totals import FAILURE, Totals
from ett_service.core.intervals import DAY_US, SECOND_US
from ett_service.core.ledger.job_results import training_flops
from ett_service.core.planning.checkpoint_interval import (
    best_interval,
    expected_ratio,
    failure_rate,
    published_ratio,
)
from ett_service.core.planning.run import Run, Spot, on_demand_cost, spot_cost, spot_gpu_hours
from ett_service.core.words import Origin
from ett_service.fleet.economy import Economy
from ett_service.fleet.scope import BadQuestion
from ett_service.fleet.summary import poisson_interval

Counted = Literal["nodes", "infra", "all"]
"""Failures of origin ``infra``, which come with nodes; preemptions, too; all of them."""

SCALES: tuple[int, ...] = tuple(8 << doubling for doubling in range(15))
"""Accelerators that are projected where none are asked for: 8 to 131,072."""

SCALE_ASSUMPTION = (
    "Nodes fail at random, independently and at one rate, also during checkpoints and restarts, "
    "which take the same time at every scale. The ratio covers a long run between its first and "
    "last loop: losses to starting, waiting for hardware, evaluation, recompiles, stalls and "
    "shutdown come on top. Its bounds are those of the failure rate (Poisson, 95%)."
)

RUN_ASSUMPTION = (
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


@dataclass(frozen=True, slots=True)
class Input:
    """A number that the projection rests on, and how many observations it has."""

    value: float | None  #: None where nothing was measured
    n: int | None = None  #: None where somebody gave the number
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a run does at any scale; durations in seconds."""

    failures_per_node_day: Input
    save: Input  #: that a save stops the loop
    restart: Input  #: from a failure until it trains again
    interval: float | None = None  #: between checkpoints; None takes the best at each scale
    accelerators_per_node: int = 8

    @property
    def missing(self) -> list[str]:
        """Names of the inputs that are neither measured nor given."""
        named = {
            "failures_per_node_day": self.failures_per_node_day,
            "save_seconds": self.save,
            "restart_seconds": self.restart,
        }
        return [name for name, each in named.items() if each.value is None]


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """One scale; durations in seconds."""

    accelerators: int
    mtbf: float  #: infinite where nothing fails
    interval: float  #: what ``ett_ratio`` holds for; infinite where one should never save
    ett_ratio: float  #: by the renewal form
    low: float | None  #: for the highest likely rate of failures
    high: float | None
    published_ratio: float  #: by the short form
    best_interval: float
    best_ett_ratio: float

    @property
    def published_error(self) -> float:
        """How far the short form lies from the exact one."""
        return self.published_ratio - self.ett_ratio


def measured(totals: Totals, counted: Counted, accelerators_per_node: int) -> Inputs:
    """Take the inputs from what a cohort did.

    Node days are those of held accelerators. A restart is the mean time to recover, a save the
    mean stop of the loop. *totals* hold their tallies.
    """
    failures = _failures(totals, counted)
    node_days = totals.gpu_us / accelerators_per_node / DAY_US
    rate = Input(None, failures)
    if node_days:
        fewest, most = poisson_interval(failures)
        rate = Input(failures / node_days, failures, fewest / node_days, most / node_days)
    return Inputs(
        rate,
        save=_mean(totals, "checkpoint_blocking"),
        restart=_mean(totals, "time_to_recover"),
        accelerators_per_node=accelerators_per_node,
    )


def _failures(totals: Totals, counted: Counted) -> int:
    if counted == "nodes":
        broken = f"{FAILURE}{Origin.INFRA}/"
        return sum(tally.n for name, tally in totals.tallies.items() if name.startswith(broken))
    return totals["infra_failures" if counted == "infra" else "failures"]


def _mean(totals: Totals, name: str) -> Input:
    tally = totals.tally(name)
    mean_us = tally.mean_us
    return Input(None if mean_us is None else mean_us / SECOND_US, tally.n)


def project(inputs: Inputs, scales: Sequence[int] = SCALES) -> list[ScalePoint]:
    """Project ETT% at each number of accelerators; nothing while inputs are missing.

    Raises ValueError if an input is negative.
    """
    if inputs.missing:
        return []
    return [_point(inputs, accelerators) for accelerators in scales]


def _point(inputs: Inputs, accelerators: int) -> ScalePoint:
    given = inputs.failures_per_node_day
    assert given.value is not None
    assert inputs.save.value is not None
    assert inputs.restart.value is not None
    save, restart = inputs.save.value, inputs.restart.value

    def rate(per_node_day: float) -> float:
        return failure_rate(accelerators, per_node_day, inputs.accelerators_per_node)

    expected = rate(given.value)
    # Where nothing failed yet, one saves as if failures were as frequent as they still can be.
    best = best_interval(expected or rate(given.high or 0.0), save)
    interval = best if inputs.interval is None else inputs.interval
    low, high = (
        None if bound is None else expected_ratio(rate(bound), interval, save, restart)
        for bound in (given.high, given.low)
    )
    return ScalePoint(
        accelerators=accelerators,
        mtbf=1 / expected if expected else math.inf,
        interval=interval,
        ett_ratio=expected_ratio(expected, interval, save, restart),
        low=low,
        high=high,
        published_ratio=published_ratio(expected, interval, save, restart),
        best_interval=best,
        best_ett_ratio=expected_ratio(expected, best, save, restart),
    )


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
