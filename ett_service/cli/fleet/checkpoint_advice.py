"""``ett checkpoint-advice``: how often a job, or each cohort, should save."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ett_service.charts.units import amount, count, duration, percent
from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit, Failure
from ett_service.cli.fleet.fleet import names
from ett_service.cli.output import write_json, write_line, write_table
from ett_service.cli.remote import ask
from ett_service.cli.window import add_by, add_scope, add_window, scope, window
from ett_service.report.advice import VERDICTS

Answer = Mapping[str, Any]


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "checkpoint-advice",
        help="find how often to save",
        epilog="Examples: `ett checkpoint-advice llm-70b`, `ett checkpoint-advice --by model`.",
    )
    parser.add_argument("job", nargs="?", help="one job, over all its life; else the fleet")
    add_by(parser)
    add_window(parser)
    add_scope(parser)
    parser.add_argument(
        "--failures", choices=("all", "infra"), help="which failures count (default all)"
    )
    add_server(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the advice for a job, or for the fleet and its groups.

    Raises:
        Failure: where a window or a group is asked of one job.
    """
    answer = _of_job(args) if args.job else _of_fleet(args)
    if args.json:
        write_json(answer)
    elif args.job:
        _write_one(answer, args.job)
    else:
        _write_groups(answer)
    return Exit.DONE


def _of_job(args: argparse.Namespace) -> Answer:
    if args.by or args.begin or args.end or args.where or args.exclusions:
        raise Failure(
            "a job is advised by all of its life",
            "Leave out --by, --from, --to, --where and --exclusions, or the job.",
        )
    path = f"/v1/jobs/{quote(args.job, safe='')}/checkpoint-advice"
    answer: Answer = ask(args, path, {"project": args.project, "failures": args.failures})
    return answer


def _of_fleet(args: argparse.Namespace) -> Answer:
    query = {**window(args), **scope(args), "group_by": args.by, "failures": args.failures}
    answer: Answer = ask(args, "/v1/fleet/checkpoint-advice", query)
    return answer


def _write_groups(answer: Answer) -> None:
    if not answer["groups"]:
        _write_one(answer["total"], "the fleet")
        return
    numbers = ("failures", "saves", "a save", "now", "best", "WTT% now", "at best", "GPU-h to gain")
    write_table(
        (*answer["group_by"], *numbers, "verdict"),
        [
            (*names(group, answer["group_by"]), *_numbers(group), _verdict(group))
            for group in answer["groups"]
        ],
        right=numbers,
    )
    write_line()
    write_line(f"Assumed: {answer['total']['assumption']}")


def _numbers(group: Answer) -> list[str]:
    best, current, gain = group["best"], group["current"], group["gain"]
    return [
        count(group["n"]["failures"]),
        count(group["n"]["saves"]),
        duration(group["save_seconds"]["value"]),
        duration(current and current["interval_seconds"]),
        duration(best["interval_seconds"]),
        percent(current and current["wasted_ratio"]),
        percent(best["wasted_ratio"]),
        amount(gain and gain["gpu_hours"]),
    ]


def _verdict(group: Answer) -> str:
    return group["reason"] or VERDICTS[group["verdict"]]


def _write_one(advice: Answer, name: str) -> None:
    best, current, band = advice["best"], advice["current"], advice["flat_band"]
    write_line(f"{name}: {_verdict(advice)}")
    rows: Sequence[tuple[str, str]] = [
        ("save every", _estimate(best["interval_seconds"], best)),
        ("hardly worse from", "-" if band is None else _span(band)),
        ("now", duration(current and current["interval_seconds"])),
        ("wasted now", percent(current and current["wasted_ratio"])),
        ("wasted at best", percent(best["wasted_ratio"])),
        ("GPU-hours to gain", amount(advice["gain"] and advice["gain"]["gpu_hours"])),
        (
            "a save stops the loop",
            _estimate(advice["save_seconds"]["value"], advice["save_seconds"]),
        ),
        ("between failures", _estimate(advice["mtbf_seconds"]["value"], advice["mtbf_seconds"])),
        ("measured", _counts(advice["n"])),
    ]
    write_table(("", ""), rows)
    _write_curve(advice["curve"])
    write_line()
    write_line(f"Assumed: {advice['assumption']}")


def _estimate(value: float | None, bounds: Answer) -> str:
    low, high = bounds["low"], bounds["high"]
    if low is None and high is None:
        return duration(value)
    if high is None:
        return f"{duration(value)} (at least {duration(low)})"
    return f"{duration(value)} ({_span(bounds)})"


def _span(bounds: Answer) -> str:
    return f"{duration(bounds['low'])} to {duration(bounds['high'])}"


def _counts(counts: Answer) -> str:
    return (
        f"{count(counts['failures'])} failures, {count(counts['infra_failures'])} of them infra; "
        f"{count(counts['saves'])} saves"
    )


def _write_curve(curve: Sequence[Answer]) -> None:
    if not curve:
        return
    write_line()
    numbers = ("interval", "unsaved", "blocking", "WTT%")
    write_table(
        numbers,
        [
            (
                duration(point["interval_seconds"]),
                percent(point["unsaved_ratio"]),
                percent(point["blocking_ratio"]),
                percent(point["wasted_ratio"]),
            )
            for point in curve[::2]
        ],
        right=numbers,
    )
