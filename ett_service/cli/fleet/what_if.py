"""``ett what-if``: what the fleet would have gained, had something gone better."""

import argparse
from collections.abc import Mapping
from typing import Any

from ett_service.charts.units import amount, count, money, percent, points
from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.remote import PATIENT_S, ask
from ett_service.cli.window import add_scope, add_window, scope, window

Answer = Mapping[str, Any]

_FORMS = (
    "cut CATEGORY by N %%, cut stage PHASE/STAGE by N %%, cut ORIGIN, CAUSE or all failures by "
    "N %%, halve ..., publish off the GPUs"
)


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "what-if",
        help="what the fleet would have gained, had something gone better",
        epilog="Example: `ett what-if 'cut pt2_compile by 40 %' 'halve infra failures'`.",
    )
    parser.add_argument("scenario", nargs="+", help=f"in quotes: {_FORMS}")
    add_window(parser)
    add_scope(parser)
    add_server(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what each scenario would have gained, the largest gain first."""
    query = {**window(args), **scope(args), "scenario": args.scenario}
    answer = ask(args, "/v1/what-if", query, timeout_s=PATIENT_S)
    if args.json:
        write_json(answer)
    else:
        _write(answer)
    return Exit.DONE


def _write(answer: Answer) -> None:
    before = answer["before"]
    write_line(
        f"ETT {percent(before['ett_ratio'])} of {amount(before['gpu_hours'])} GPU-hours, "
        f"{minute(answer['from'])} to {minute(answer['to'])} (UTC)"
    )
    write_line()
    numbers = ("gain", f"{answer['confidence']:.0%} interval", "ETT%", "GPU-h", "cost", "jobs")
    gains = answer["gains"]
    together = answer["together"]
    write_table(
        ("scenario", *numbers),
        [("; ".join(gain["scenarios"]), *_numbers(gain, answer)) for gain in gains],
        right=numbers,
        last=("all together", *_numbers(together, answer)) if len(gains) > 1 else None,
    )
    _write_notes(answer)


def _numbers(gain: Answer, answer: Answer) -> list[str]:
    return [
        points(gain["points"] / 100),
        interval(gain["points_interval"]),
        percent(gain["ett_ratio"]),
        amount(gain["gpu_hours"]),
        money(gain["money"], answer["currency"]),
        count(gain["jobs"]),
    ]


def interval(bounds: Answer | None) -> str:
    """Show an interval of percentage points."""
    if bounds is None:
        return "-"
    return f"{points(bounds['low'] / 100)} to {points(bounds['high'] / 100)}"


def _write_notes(answer: Answer) -> None:
    write_line()
    if len(answer["gains"]) > 1:
        write_line(answer["note"])
    said = [line for gain in answer["gains"] for line in gain["assumptions"]]
    for assumption in dict.fromkeys(said):
        write_line(f"Assumed: {assumption}")
    if answer["jobs_read"] < answer["jobs"]:
        write_line(
            f"{count(answer['jobs_read'])} of {count(answer['jobs'])} jobs were read, drawn by "
            "chance; they stand for all."
        )
    if answer["jobs_without_accelerators"]:
        weightless = count(answer["jobs_without_accelerators"])
        write_line(f"Jobs of unknown accelerators, which weigh nothing: {weightless}.")
