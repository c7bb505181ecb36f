"""``ett estimate``: what a planned run would take, on demand, on spot machines and by scale."""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from functools import partial
from typing import Any

from ett_service.api.fleet.projection import EstimateAnswer, ScaleAnswer
from ett_service.charts.units import amount, count, duration, many, money, percent
from ett_service.cli.arguments import amount as an_amount
from ett_service.cli.arguments import (
    config,
    scope,
    scope_query,
    seconds,
    server,
    share,
    whole,
    wholes,
    window,
    window_query,
)
from ett_service.cli.operations.config import loaded
from ett_service.cli.output import write_line, write_prose
from ett_service.cli.remote import ask
from ett_service.cli.tables import Answer, Column, number, text, write_table
from ett_service.cli.verb import Failure, Verb, now_us
from ett_service.fleet.economy import Economy
from ett_service.fleet.projection import Input, Inputs, PlanQuestion, ScalePoint, plan, project
from ett_service.fleet.scope import BadQuestion

_FLAGS = {
    "ett": "--ett",
    "seconds_between_interruptions": "--interrupted-every",
    "restart_seconds": "--restart",
    "interval_seconds": "--interval",
    "save_seconds": "--save",
}
_ORIGINS = {"given": "given", "measured": "measured", "ideal": "nothing lost"}
_HOUR = 3600


def _run_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("the run")
    group.add_argument("--accelerators", type=whole, required=True, metavar="N")
    group.add_argument(
        "--mfu", type=share, required=True, help="share of the peak rate while it trains"
    )
    group.add_argument(
        "--flops", type=an_amount, help="total operations (default 6 x parameters x tokens)"
    )
    group.add_argument("--parameters", type=whole)
    group.add_argument("--tokens", type=whole)
    group.add_argument("--hardware", help="accelerator, for its price and peak rate")
    group.add_argument("--precision", default="bf16", help="for the peak rate (default bf16)")
    group.add_argument(
        "--peak-teraflops", type=an_amount, help="of an accelerator (default: of the hardware)"
    )
    group.add_argument(
        "--price", type=an_amount, help="of an accelerator hour (default: today's in the settings)"
    )


def _ett_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("effective training time")
    group.add_argument(
        "--ett", type=share, metavar="SHARE", help="ETT%% (default 100%%: nothing is lost)"
    )
    group.add_argument(
        "--measured", action="store_true", help="use the fleet's ETT%%, asked of the server"
    )


def _spot_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("spot machines (durations such as 90s, 10m, 6h, 1d)")
    group.add_argument("--discount", type=share, metavar="SHARE", help="off the on-demand price")
    group.add_argument(
        "--interrupted-every", type=seconds, metavar="TIME", help="on average (default: never)"
    )
    group.add_argument(
        "--restart", type=seconds, default=0.0, metavar="TIME", help="until it trains again"
    )
    group.add_argument(
        "--interval", type=seconds, metavar="TIME", help="between checkpoints (default: the best)"
    )
    group.add_argument(
        "--save", type=seconds, default=0.0, metavar="TIME", help="checkpoint blocking of a save"
    )


def _scale_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("other scales, with --restart, --interval and --save")
    group.add_argument(
        "--scale", type=wholes, metavar="N,N,...", help="numbers of accelerators to project to"
    )
    group.add_argument(
        "--failures-per-node-day", type=an_amount, metavar="RATE", help="Llama 3 had 0.0038"
    )


def _run(args: Namespace) -> Any:
    """Return the estimate, and one for each scale.

    Raises:
        Failure: where something needed is missing or impossible.
    """
    economy, at_us = loaded(args).settings.economy, now_us()
    try:
        answer = _estimate(args, _question(args), economy, at_us)
        if args.scale:
            answer["scales"] = _scales(args, economy, at_us)
    except BadQuestion as bad:
        flag = _FLAGS.get(bad.parameter, "--" + bad.parameter.replace("_", "-"))
        raise Failure(
            f"{flag}: {bad.allowed}", "`ett estimate --help` explains the arguments."
        ) from bad
    return answer


def _question(args: Namespace) -> PlanQuestion:
    return PlanQuestion(
        accelerators=args.accelerators,
        mfu=args.mfu,
        flops=args.flops,
        parameters=args.parameters,
        tokens=args.tokens,
        hardware=args.hardware,
        precision=args.precision,
        peak_teraflops=args.peak_teraflops,
        price=args.price,
        ett=args.ett,
        discount=args.discount,
        seconds_between_interruptions=args.interrupted_every,
        restart_seconds=args.restart,
        interval_seconds=args.interval,
        save_seconds=args.save,
    )


def _estimate(
    args: Namespace, question: PlanQuestion, economy: Economy, at_us: int
) -> dict[str, Any]:
    measured, jobs = None, None
    if args.measured and args.ett is None:
        query = {**window_query(args), **scope_query(args), "distributions": "false"}
        total = ask(args, "/v1/fleet/summary", query)["total"]
        measured, jobs = total["ett_ratio"], total["jobs"]
    run_plan = plan(question, economy, at_us, measured)
    return EstimateAnswer.read(run_plan, economy.currency, jobs).model_dump(mode="json")


def _scales(args: Namespace, economy: Economy, at_us: int) -> list[dict[str, Any]]:
    if args.failures_per_node_day is None:
        raise BadQuestion("failures_per_node_day", "missing", "Give it with --scale.")
    inputs = Inputs(
        Input(args.failures_per_node_day),
        save=Input(args.save),
        restart=Input(args.restart),
        interval=args.interval,
        accelerators_per_node=economy.accelerators_per_node,
    )
    return [_scale(args, point, economy, at_us) for point in project(inputs, args.scale)]


def _scale(args: Namespace, point: ScalePoint, economy: Economy, at_us: int) -> dict[str, Any]:
    question = replace(
        _question(args), accelerators=point.accelerators, ett=point.ett_ratio, discount=None
    )
    if point.ett_ratio == 0:
        machines = {"gpu_hours": None, "wall_hours": None, "cost": None}
    else:
        answer = EstimateAnswer.read(plan(question, economy, at_us), economy.currency)
        machines = answer.on_demand.model_dump(mode="json")
    return {**ScaleAnswer.model_validate(point).model_dump(mode="json"), "on_demand": machines}


def _hours(hours: float | None) -> str:
    return duration(None if hours is None else hours * _HOUR)


def _machines(currency: str, member: str = "") -> tuple[Column, ...]:
    """Return the columns of what machines take; *member* of a row holds it."""
    return (
        number("GPU-h", f"{member}gpu_hours", amount),
        number("takes", f"{member}wall_hours", _hours),
        number("cost", f"{member}cost", partial(money, currency=currency)),
    )


_SCALE = (
    number("accelerators", "accelerators", count),
    number("fails every", "mtbf_seconds", duration),
    number("saves every", "interval_seconds", duration),
    number("ETT%", "ett_ratio", percent),
)


def _write(answer: Answer, _args: Namespace) -> None:
    jobs = f" over {many(answer['measured_jobs'], 'job')}" if answer["measured_jobs"] else ""
    write_prose(
        f"{answer['flops']:.4g} operations at {percent(answer['mfu'])} of "
        f"{amount(answer['peak_teraflops'])} teraflops a second, on "
        f"{count(answer['accelerators'])} accelerators; ETT {percent(answer['ett_ratio'])} "
        f"({_ORIGINS[answer['ett_from']]}{jobs})"
    )
    write_line()
    spot, currency = answer["spot"], answer["currency"]
    rows = [{"name": "on demand", **answer["on_demand"]}]
    rows += [{"name": "spot", **spot}] if spot else []
    write_table((text("", "name"), *_machines(currency)), rows)
    if spot:
        _write_spot(spot, currency)
    if answer["cost_per_million_tokens"] is not None:
        price = answer["cost_per_million_tokens"]
        write_prose(f"{currency} {price:.4g} per million tokens, on demand")
    if answer["on_demand"]["cost"] is None:
        write_prose("No price is known. Give one with --price or in the settings.")
    if answer.get("scales"):
        write_line()
        write_table((*_SCALE, *_machines(currency, "on_demand.")), answer["scales"])
        write_prose("ETT% by scale counts the losses to failures, restarts and saves alone.")
    write_line()
    write_prose(f"Assumed: {answer['assumption']}")


def _write_spot(spot: Answer, currency: str) -> None:
    write_line()
    write_prose(
        f"Interruptions every {_or_never(spot['seconds_between_interruptions'])} leave "
        f"{percent(spot['kept_ratio'])} of the time, with a checkpoint every "
        f"{_or_never(spot['interval_seconds'])}."
    )
    even = spot["break_even_seconds_between_interruptions"]
    if even is None:
        write_prose("Spot costs more than on demand, even without interruptions.")
    elif spot["gpu_hours"] is None:
        write_prose(
            f"The run never completes on spot. Spot pays from {duration(even)} between "
            "interruptions on."
        )
    else:
        saved = "" if spot["saved"] is None else f"saves {money(spot['saved'], currency)}; it "
        write_prose(f"Spot {saved}pays from {duration(even)} between interruptions on.")


def _or_never(length: float | None) -> str:
    return "(never)" if length is None else duration(length)


VERB = Verb(
    epilog="Example: `ett estimate --parameters 7e9 --tokens 2e12 --hardware H100 --mfu 40%% "
    "--accelerators 512 --ett 90%%`. Only --measured needs a server.",
    options=(
        _run_options,
        _ett_options,
        window,
        scope,
        _spot_options,
        _scale_options,
        config,
        server,
    ),
    run=_run,
    write=_write,
)
