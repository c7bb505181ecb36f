"""``ett changes``: what was done to the fleet, and what is associated with it."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ett_service.charts.bridge import SECONDS, Step, bridge
from ett_service.charts.palette import standalone
from ett_service.charts.units import count, duration, longer, percent, points
from ett_service.cli.arguments import scope, scope_query, server, window, window_query
from ett_service.cli.output import NONE, conditions, minute, write_line, write_prose
from ett_service.cli.remote import PATIENT_S, ask
from ett_service.cli.tables import Answer, difference, loss, number, styled, text, write_table
from ett_service.cli.verb import Failure, Verb


def _marker(step: Answer) -> str:
    return step["marker"]["title"] if step["marker"] else NONE


def _points(difference: float | None) -> str:
    return points(None if difference is None else difference / 100)


def _interval(bounds: Answer | None, show: Callable[[float | None], str]) -> str:
    return NONE if bounds is None else f"{show(bounds['low'])} to {show(bounds['high'])}"


_EFFECTS = (
    text("mean of", "measure"),
    number("before"),
    number("n", "n_before"),
    number("after"),
    number("n", "n_after"),
    styled(number("difference"), difference),
    text("95% interval", "interval"),
)
_STEPS = (
    text("since", "from", minute),
    number("mean time to start", "mean_seconds", duration),
    number("n", "n", count),
    styled(number("step", "step_seconds", longer), loss),
    text("marker", _marker),
)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--kind", help="only markers of this kind, such as deploy or launch")
    parser.add_argument("--marker", metavar="ID", help="only this marker")
    parser.add_argument(
        "--reach-days",
        type=int,
        metavar="N",
        help="days to compare on either side of a marker (default 14)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="draw the mean time to start from marker to marker into this SVG file",
    )


def _changes(args: Namespace) -> Any:
    query = {
        **window_query(args),
        **scope_query(args),
        "kind": args.kind,
        "marker": args.marker,
        "reach_days": args.reach_days,
    }
    answer = ask(args, "/v1/fleet/changes", query, timeout_s=PATIENT_S)
    if args.output is not None:
        _draw(answer["waterfall"], args.output)
    return answer


def _write(answer: Answer, _args: Namespace) -> None:
    if not answer["changes"]:
        write_prose("No markers in this window. `ett markers add` adds one.")
    for change in answer["changes"]:
        marker = change["marker"]
        labels = conditions(marker["labels"])
        write_prose(
            f"{minute(marker['at'])}  {marker['kind']}  {marker['title']}  {labels}".rstrip()
        )
        write_table(_EFFECTS, _effects(change))
        write_line()
    total = answer["waterfall"]["change_seconds"]
    write_table(_STEPS, answer["waterfall"]["steps"], last=("total", "", "", longer(total), ""))
    write_line()
    write_prose(answer["note"])


def _effects(change: Answer) -> Iterator[Answer]:
    for effect in change["effects"]:
        before, after = effect["before"], effect["after"]
        yield {
            "measure": effect["measure"],
            "before": duration(before["mean_seconds"]),
            "n_before": count(before["n"]),
            "after": duration(after["mean_seconds"]),
            "n_after": count(after["n"]),
            "difference": longer(effect["difference_seconds"]),
            "interval": _interval(effect["difference_interval"], longer),
        }
    ett = change["ett"]
    yield {
        "measure": "ETT%",
        "before": percent(ett["before"]),
        "n_before": "",
        "after": percent(ett["after"]),
        "n_after": "",
        "difference": _points(ett["points"]),
        "interval": _interval(ett["points_interval"], _points),
    }


def _draw(waterfall: Answer, file: Path) -> None:
    steps = [step for step in waterfall["steps"] if step["n"]]
    if not steps:
        raise Failure("No job began in this window, so there is nothing to draw.")
    first, last = steps[0]["mean_seconds"], steps[-1]["mean_seconds"]
    bars = [Step(_marker(step), step["step_seconds"]) for step in steps[1:]]
    title = "Mean time to start, from marker to marker"
    drawing = bridge("changes", title, ("before", first), bars, ("now", last), unit=SECONDS)
    file.write_text(standalone(drawing), "utf-8")


VERB = Verb(
    epilog="Examples: `ett changes`, `ett changes --from 60d --kind launch -o launches.svg`.",
    options=(_options, window, scope, server),
    run=_changes,
    write=_write,
)
