"""``ett changes``: what was done to the fleet, and what is associated with it."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ett_service.charts.bridge import SECONDS, Step, bridge
from ett_service.charts.palette import standalone
from ett_service.charts.units import count, duration, longer, percent, points
from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.remote import PATIENT_S, ask
from ett_service.cli.window import add_scope, add_window, scope, window

Answer = Mapping[str, Any]

_NUMBERS = ("before", "n", "after", "n", "difference")


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "changes",
        help="what was before each marker, and what after it",
        epilog="Examples: `ett changes`, `ett changes --from 60d --kind launch -o launches.svg`.",
    )
    parser.add_argument("--kind", help="only markers of this kind, as deploy or launch")
    parser.add_argument("--marker", metavar="ID", help="only this one")
    parser.add_argument(
        "--reach-days", type=int, metavar="N", help="how far to look from a marker (default 14)"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="draw the mean time to start from marker to marker into this SVG file",
    )
    add_window(parser)
    add_scope(parser)
    add_server(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what each marker is associated with, the latest first, and draw what was asked for."""
    query = {
        **window(args),
        **scope(args),
        "kind": args.kind,
        "marker": args.marker,
        "reach_days": args.reach_days,
    }
    answer = ask(args, "/v1/fleet/changes", query, timeout_s=PATIENT_S)
    if args.output is not None:
        _draw(answer["waterfall"], args.output)
    if args.json:
        write_json(answer)
    else:
        _write(answer)
    return Exit.DONE


def _write(answer: Answer) -> None:
    if not answer["changes"]:
        write_line("No markers in this window. `ett markers add` records what is done.")
    for change in answer["changes"]:
        marker = change["marker"]
        labels = " ".join(f"{name}:{value}" for name, value in marker["labels"].items())
        write_line(
            f"{minute(marker['at'])}  {marker['kind']}  {marker['title']}  {labels}".rstrip()
        )
        write_table(
            ("mean of", *_NUMBERS, "95% interval"), list(_rows(change)), right=set(_NUMBERS)
        )
        write_line()
    _write_steps(answer["waterfall"])
    write_line()
    write_line(answer["note"])


def _rows(change: Answer) -> Iterator[tuple[str, ...]]:
    for effect in change["effects"]:
        yield (
            effect["measure"],
            *_side(effect["before"]),
            *_side(effect["after"]),
            longer(effect["difference_seconds"]),
            _interval(effect["difference_interval"], longer),
        )
    ett = change["ett"]
    yield (
        "ETT%",
        percent(ett["before"]),
        "",
        percent(ett["after"]),
        "",
        _points(ett["points"]),
        _interval(ett["points_interval"], _points),
    )


def _side(side: Answer) -> tuple[str, str]:
    return duration(side["mean_seconds"]), count(side["n"])


def _points(difference: float | None) -> str:
    return points(None if difference is None else difference / 100)


def _interval(bounds: Answer | None, shown: Callable[[float | None], str]) -> str:
    return "-" if bounds is None else f"{shown(bounds['low'])} to {shown(bounds['high'])}"


def _write_steps(waterfall: Answer) -> None:
    numbers = ("mean time to start", "n", "step")
    write_table(
        ("since", *numbers, "marker"),
        [
            (
                minute(step["from"]),
                duration(step["mean_seconds"]),
                count(step["n"]),
                longer(step["step_seconds"]),
                _name(step),
            )
            for step in waterfall["steps"]
        ],
        right=numbers,
        last=("in all", "", "", longer(waterfall["change_seconds"]), ""),
    )


def _name(step: Answer) -> str:
    return step["marker"]["title"] if step["marker"] else "-"


def _draw(waterfall: Answer, file: Path) -> None:
    known = [step for step in waterfall["steps"] if step["n"]]
    if not known:
        raise Failure("No job began in this window: there is nothing to draw.")
    first, last = known[0]["mean_seconds"], known[-1]["mean_seconds"]
    steps = [Step(_name(step), step["step_seconds"]) for step in known[1:]]
    title = "Mean time to start, from marker to marker"
    drawn = bridge("changes", title, ("before", first), steps, ("now", last), unit=SECONDS)
    file.write_text(standalone(drawn), "utf-8")
