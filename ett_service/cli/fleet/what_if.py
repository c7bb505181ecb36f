"""``ett what-if``: what the fleet would have gained, had something gone better."""

from argparse import ArgumentParser, Namespace
from functools import partial
from typing import Any

from ett_service.charts.units import amount, count, money, percent, points
from ett_service.cli.arguments import scope, scope_query, server, window, window_query
from ett_service.cli.output import NONE, minute, write_line, write_prose
from ett_service.cli.remote import PATIENT_S, ask
from ett_service.cli.tables import Answer, cells, gain, number, spare, styled, text, write_table
from ett_service.cli.verb import Verb

_FORMS = (
    "cut CATEGORY by N%%, cut stage PHASE/STAGE by N%%, cut ORIGIN, CAUSE or all failures by "
    "N%%, halve ..., publish off the GPUs"
)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="+", help=f"in quotes: {_FORMS}")


def _what_if(args: Namespace) -> Any:
    query = {**window_query(args), **scope_query(args), "scenario": args.scenario}
    return ask(args, "/v1/what-if", query, timeout_s=PATIENT_S)


def _write(answer: Answer, _args: Namespace) -> None:
    before = answer["before"]
    write_prose(
        f"ETT {percent(before['ett_ratio'])}, {amount(before['gpu_hours'])} GPU-hours held, "
        f"{minute(answer['from'])} to {minute(answer['to'])} (UTC)"
    )
    write_line()
    numbers = (
        styled(number("gain", "points", _points), gain),
        number(f"{answer['confidence']:.0%} interval", "points_interval", _interval),
        number("ETT%", "ett_ratio", percent),
        number("GPU-h", "gpu_hours", amount),
        number("cost", "money", partial(money, currency=answer["currency"])),
        spare(number("jobs", "jobs", count)),
    )
    gains = answer["gains"]
    together = ("all together", *cells(numbers, answer["together"])) if len(gains) > 1 else None
    write_table((text("scenario", "scenarios", "; ".join), *numbers), gains, last=together)
    _write_notes(answer)


def _points(difference: float) -> str:
    return points(difference / 100)


def _interval(bounds: Answer | None) -> str:
    if bounds is None:
        return NONE
    return f"{_points(bounds['low'])} to {_points(bounds['high'])}"


def _write_notes(answer: Answer) -> None:
    write_line()
    if len(answer["gains"]) > 1:
        write_prose(answer["note"])
    assumptions = [line for gain in answer["gains"] for line in gain["assumptions"]]
    for assumption in dict.fromkeys(assumptions):
        write_prose(f"Assumed: {assumption}")
    if answer["jobs_read"] < answer["jobs"]:
        write_prose(
            f"The numbers rest on a random sample of {count(answer['jobs_read'])} of "
            f"{count(answer['jobs'])} jobs."
        )
    if answer["jobs_without_accelerators"]:
        weightless = count(answer["jobs_without_accelerators"])
        write_prose(f"Jobs of unknown accelerators, which have no weight: {weightless}.")


VERB = Verb(
    epilog="Example: `ett what-if 'cut pt2_compile by 40%' 'halve infra failures'`.",
    options=(_options, window, scope, server),
    run=_what_if,
    write=_write,
)
