"""``ett fleet``: where the fleet's time goes, in all, by group, or over time."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ett_service.charts.units import count, duration, gpu_hours, money, percent, points
from ett_service.cli.arguments import add_json, add_server
from ett_service.cli.exits import Exit
from ett_service.cli.output import minute, write_json, write_line, write_table
from ett_service.cli.remote import ask, fetch
from ett_service.cli.window import add_by, add_scope, add_window, scope, window
from ett_service.report.inputs import ett_ratio, lost_gpu_seconds

Answer = Mapping[str, Any]

_NUMBERS = ("jobs", "ETT%", "GPU-h", "lost GPU-h", "start p50", "recover p50", "failures", "cost")
_EMPTY = (
    "No job lived in this time. `ett jobs` lists those there are, and --from goes further back."
)


def add_parser(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "fleet",
        help="show where the fleet's time goes",
        epilog="Examples: `ett fleet --by team`, `ett fleet --where model:llm-70b --step 1d`.",
    )
    add_by(parser)
    add_window(parser)
    add_scope(parser)
    parser.add_argument("--step", choices=("1h", "1d", "1w"), help="the same over time")
    parser.add_argument("--csv", action="store_true", help="write the server's CSV")
    add_server(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the fleet's numbers, largest loss first, or those of each step."""
    query = {**window(args), **scope(args), "group_by": args.by}
    path = "/v1/fleet/series" if args.step else "/v1/fleet/summary"
    query |= {"step": args.step} if args.step else {"sort": "lost"}
    if args.csv:
        sys.stdout.write(fetch(args, path, {**query, "format": "csv"}).body.decode())
        return Exit.DONE
    answer = ask(args, path, query)
    if args.json:
        write_json(answer)
    elif args.step:
        _write_series(answer)
    elif not answer["total"]["jobs"]:
        write_line(_EMPTY)
    else:
        _write_summary(answer)
    return Exit.DONE


def _write_summary(answer: Answer) -> None:
    total = answer["total"]
    write_line(headline(total, answer))
    write_line()
    if answer["group_by"]:
        groups = sorted(answer["groups"], key=lost_gpu_seconds, reverse=True)
        write_table(
            (*answer["group_by"], *_NUMBERS),
            [(*names(group, answer["group_by"]), *_numbers(group)) for group in groups],
            right=_NUMBERS,
            last=("total", *[""] * (len(answer["group_by"]) - 1), *_numbers(total)),
        )
        _write_other(answer["other_cohorts"])
        return
    _write_ratios(total)
    _write_categories(total)
    _write_failures(total)


def headline(total: Answer, answer: Answer) -> str:
    """Say in one line how the fleet did, and in which time."""
    said = f"ETT {percent(ett_ratio(total))} of {gpu_hours(total['gpu_seconds'])} GPU-hours"
    if total["target"] is not None:
        distance = total["target"]["distance"]
        said += f", {points(distance)} from the target {percent(total['target']['ett_ratio'])}"
    return f"{said}, {minute(answer['from'])} to {minute(answer['to'])} (UTC)"


def names(group: Answer, dimensions: Sequence[str]) -> list[str]:
    """Return what to call a group, a word for each dimension."""
    if group["other"]:
        return ["(other)"] * len(dimensions)
    return [group["group"][dimension] or "(unknown)" for dimension in dimensions]


def _numbers(group: Answer) -> list[str]:
    return [
        count(group["jobs"]),
        percent(ett_ratio(group)),
        gpu_hours(group["gpu_seconds"]),
        gpu_hours(lost_gpu_seconds(group)),
        duration(group["time_to_start"]["p50"]),
        duration(group["time_to_recover"]["p50"]),
        count(group["failures"]["total"]),
        money(group["cost"]["total"], group["cost"]["currency"]),
    ]


def _write_other(cohorts: int) -> None:
    if cohorts:
        write_line(f"`(other)` holds the {count(cohorts)} smallest cohorts together.")


def _write_ratios(total: Answer) -> None:
    write_table(
        ("ETT% by accelerators", "by wall time", "median job", "wasted", "jobs", "attempts"),
        [
            (
                percent(total["ett_ratio"]),
                percent(total["ett_ratio_wall"]),
                percent(total["ett_ratio_median_job"]),
                percent(total["wasted_ratio"]),
                count(total["jobs"]),
                count(total["attempts"]),
            )
        ],
    )


def _write_categories(total: Answer) -> None:
    cost = total["cost"]
    spent = {name: seconds for name, seconds in total["weighted_categories"].items() if seconds}
    whole = total["weighted_seconds"]
    write_line()
    write_table(
        ("category", "share", "GPU-h", "cost"),
        [
            (
                name,
                percent(seconds / whole),
                gpu_hours(total["gpu_categories"].get(name, 0.0)),
                money((cost["by_category"] or {}).get(name), cost["currency"]),
            )
            for name, seconds in spent.items()
        ],
        right=("share", "GPU-h", "cost"),
        last=(
            "all",
            percent(1.0 if whole else None),
            gpu_hours(total["gpu_seconds"]),
            money(cost["total"], cost["currency"]),
        ),
    )


def _write_failures(total: Answer) -> None:
    failures, mtbf = total["failures"], total["mtbf"]
    write_line()
    write_table(
        ("", "n", "mean", "p50", "p90", "p99"),
        [
            (name.replace("_", " "), count(found["count"]), *map(duration, _spread(found)))
            for name in ("time_to_start", "time_to_recover", "checkpoint_blocking")
            if (found := total[name])
        ],
        right=("n", "mean", "p50", "p90", "p99"),
    )
    write_line()
    write_line(
        f"{count(failures['total'])} failures, {count(failures['infra'])} of them infra; "
        f"mean time between failures {duration(mtbf['seconds'])} "
        f"({mtbf['confidence']:.0%}: {duration(mtbf['low'])} to {duration(mtbf['high'])})"
    )


def _spread(found: Answer) -> list[float | None]:
    return [found[name] for name in ("mean", "p50", "p90", "p99")]


def _write_series(answer: Answer) -> None:
    dimensions = answer["group_by"]
    write_table(
        ("from (UTC)", *dimensions, *_NUMBERS),
        [
            (minute(point["start"]), *names(point, dimensions), *_numbers(point))
            for point in answer["points"]
        ],
        right=_NUMBERS,
    )
