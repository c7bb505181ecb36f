"""``ett estimate``: what a planned run would take, on demand, on spot machines and by scale."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ett_service.api.fleet.estimate import EstimateAnswer
from ett_service.api.fleet.projection import ScaleAnswer
from ett_service.charts.units import amount, count, duration, money, percent
from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.configured import add_config, loaded
from ett_service.cli.estimate_arguments import add_run, add_scales, add_share, add_spot
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.now import now_us
from ett_service.cli.output import write_json, write_line, write_table
from ett_service.cli.remote import ask
from ett_service.cli.window import scope, window
from ett_service.fleet.economy import Economy
from ett_service.fleet.projection import Input, Inputs, ScalePoint, project
from ett_service.fleet.run_plan import PlanQuestion, plan
from ett_service.fleet.scope import BadQuestion

Answer = Mapping[str, Any]

_FLAGS = {
    "ett": "--ett",
    "seconds_between_interruptions": "--interrupted-every",
    "restart_seconds": "--restart",
    "interval_seconds": "--interval",
    "save_seconds": "--save",
}
_HOUR = 3600


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "estimate",
        help="find what a planned run would take",
        epilog="Example: `ett estimate --parameters 7e9 --tokens 2e12 --hardware H100 --mfu 40%% "
        "--accelerators 512 --ett 90%%`. Needs no server but for --measured.",
    )
    add_run(parser)
    add_share(parser)
    add_spot(parser)
    add_scales(parser)
    add_config(parser)
    add_server(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the estimate, and one for each scale.

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
        raise Failure(f"{flag}: {bad.allowed}", "`ett estimate --help` explains all.") from bad
    if args.json:
        write_json(answer)
    else:
        _write(answer)
    return Exit.DONE


def _question(args: argparse.Namespace) -> PlanQuestion:
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
    args: argparse.Namespace, asked: PlanQuestion, economy: Economy, at_us: int
) -> dict[str, Any]:
    measured, jobs = None, None
    if args.measured and args.ett is None:
        query = {**window(args), **scope(args), "distributions": "false"}
        total = ask(args, "/v1/fleet/summary", query)["total"]
        measured, jobs = total["ett_ratio"], total["jobs"]
    found = plan(asked, economy, at_us, measured)
    return EstimateAnswer.read(found, economy.currency, jobs).model_dump(mode="json")


def _scales(args: argparse.Namespace, economy: Economy, at_us: int) -> list[dict[str, Any]]:
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


def _scale(
    args: argparse.Namespace, point: ScalePoint, economy: Economy, at_us: int
) -> dict[str, Any]:
    asked = replace(
        _question(args), accelerators=point.accelerators, ett=point.ett_ratio, discount=None
    )
    if point.ett_ratio == 0:
        machines = {"gpu_hours": None, "wall_hours": None, "cost": None}
    else:
        found = EstimateAnswer.read(plan(asked, economy, at_us), economy.currency)
        machines = found.on_demand.model_dump(mode="json")
    return {**ScaleAnswer.model_validate(point).model_dump(mode="json"), "on_demand": machines}


def _write(answer: Answer) -> None:
    origin = {"given": "given", "measured": "measured", "ideal": "as if nothing were lost"}
    jobs = f" over {count(answer['measured_jobs'])} jobs" if answer["measured_jobs"] else ""
    write_line(
        f"{answer['flops']:.4g} operations at {percent(answer['mfu'])} of "
        f"{amount(answer['peak_teraflops'])} teraflops a second, on "
        f"{count(answer['accelerators'])} accelerators; ETT {percent(answer['ett_ratio'])} "
        f"({origin[answer['ett_from']]}{jobs})"
    )
    write_line()
    spot, currency = answer["spot"], answer["currency"]
    rows = [("on demand", answer["on_demand"])] + ([("spot", spot)] if spot else [])
    write_table(
        ("", "GPU-h", "takes", "cost"),
        [(name, *_machines(machines, currency)) for name, machines in rows],
        right=("GPU-h", "takes", "cost"),
    )
    if spot:
        _write_spot(spot, currency)
    if answer["cost_per_million_tokens"] is not None:
        write_line(
            f"{currency} {answer['cost_per_million_tokens']:.4g} a million tokens, on demand"
        )
    if answer["on_demand"]["cost"] is None:
        write_line("No price: name one with --price, or in the settings.")
    if answer.get("scales"):
        _write_scales(answer["scales"], currency)
    write_line()
    write_line(f"Assumed: {answer['assumption']}")


def _machines(machines: Answer, currency: str) -> tuple[str, str, str]:
    wall = machines["wall_hours"]
    return (
        amount(machines["gpu_hours"]),
        duration(None if wall is None else wall * _HOUR),
        money(machines["cost"], currency),
    )


def _write_spot(spot: Answer, currency: str) -> None:
    write_line()
    write_line(
        f"Interruptions every {_or_never(spot['seconds_between_interruptions'])} leave "
        f"{percent(spot['kept_ratio'])} of the time, with a checkpoint every "
        f"{_or_never(spot['interval_seconds'])}."
    )
    even = spot["break_even_seconds_between_interruptions"]
    if even is None:
        write_line("Spot costs more than demand even if it is never interrupted.")
    elif spot["gpu_hours"] is None:
        write_line(f"It never gets through; spot pays from {duration(even)} apart on.")
    else:
        saved = "" if spot["saved"] is None else f"saves {money(spot['saved'], currency)}; it "
        write_line(f"Spot {saved}pays from {duration(even)} between interruptions on.")


def _or_never(length: float | None) -> str:
    return "(never)" if length is None else duration(length)


def _write_scales(scales: list[Answer], currency: str) -> None:
    columns = ("accelerators", "fails every", "saves every", "ETT%", "GPU-h", "takes", "cost")
    write_line()
    write_table(
        columns,
        [
            (
                count(scale["accelerators"]),
                duration(scale["mtbf_seconds"]),
                duration(scale["interval_seconds"]),
                percent(scale["ett_ratio"]),
                *_machines(scale["on_demand"], currency),
            )
            for scale in scales
        ],
        right=columns,
    )
    write_line("ETT% by scale: what failures, restarts and saves leave, and nothing else lost.")
