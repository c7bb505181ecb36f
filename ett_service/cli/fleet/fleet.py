"""``ett fleet``: where the fleet's time goes, in all, by group, or over time."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from ett_service.charts.units import count, duration, gpu_hours, money, percent, points
from ett_service.cli.arguments import by, scope, scope_query, server, window, window_query
from ett_service.cli.output import minute, write_line
from ett_service.cli.remote import ask, fetch
from ett_service.cli.tables import Answer, Column, cells, number, spare, text, write_table
from ett_service.cli.verb import Verb
from ett_service.report.inputs import ett_ratio, lost_gpu_seconds

_EMPTY = "No jobs in this window. `ett jobs` lists all jobs, and --from begins earlier."


def _cost(group: Answer) -> str:
    return money(group["cost"]["total"], group["cost"]["currency"])


_NUMBERS = (
    number("jobs", "jobs", count),
    number("ETT%", ett_ratio, percent),
    number("GPU-h", "gpu_seconds", gpu_hours),
    number("lost GPU-h", lost_gpu_seconds, gpu_hours),
    number("failures", "failures.total", count),
    spare(number("start p50", "time_to_start.p50", duration)),
    spare(number("recover p50", "time_to_recover.p50", duration)),
    spare(number("cost", _cost)),
)
_RATIOS = (
    text("ETT% by accelerators", "ett_ratio", percent),
    text("by wall time", "ett_ratio_wall", percent),
    text("median job", "ett_ratio_median_job", percent),
    text("wasted", "wasted_ratio", percent),
    text("jobs", "jobs", count),
    text("attempts", "attempts", count),
)
_SPREAD = (
    text("", "name"),
    number("n", "count", count),
    *(number(name, name, duration) for name in ("mean", "p50", "p90", "p99")),
)
_OWNERS = (
    text("whose wait", itemgetter(0)),
    number("weighted h", itemgetter(1), gpu_hours),
    number("starts and recoveries", itemgetter(2), duration),
    number("queue", itemgetter(3), duration),
)
_MEASURES = ("time_to_start", "time_to_recover", "checkpoint_blocking")


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--step", choices=("1h", "1d", "1w"), help="show the numbers over time")
    parser.add_argument("--csv", action="store_true", help="print the server's CSV")


def _fleet(args: Namespace) -> Any:
    """Return the answer, or the server's CSV."""
    query = {**window_query(args), **scope_query(args), "group_by": args.by}
    path = "/v1/fleet/series" if args.step else "/v1/fleet/summary"
    query |= {"step": args.step} if args.step else {"sort": "lost"}
    if args.csv:
        return fetch(args, path, {**query, "format": "csv"}).body.decode()
    return ask(args, path, query)


def _write(answer: Any, args: Namespace) -> None:
    if args.step:
        start = text("from (UTC)", "start", minute)
        columns = (start, *group_columns(answer["group_by"]), *_NUMBERS)
        write_table(columns, answer["points"])
    elif not answer["total"]["jobs"]:
        write_line(_EMPTY)
    else:
        _write_summary(answer)


def _write_summary(answer: Answer) -> None:
    total, dimensions = answer["total"], answer["group_by"]
    write_line(_headline(total, answer))
    write_line()
    if not dimensions:
        write_table(_RATIOS, [total])
        _write_categories(total)
        _write_owners(total)
        _write_failures(total)
        return
    write_table(
        (*group_columns(dimensions), *_NUMBERS),
        sorted(answer["groups"], key=lost_gpu_seconds, reverse=True),
        last=("total", *[""] * (len(dimensions) - 1), *cells(_NUMBERS, total)),
    )
    if answer["other_cohorts"]:
        others = count(answer["other_cohorts"])
        write_line(f"`(other)` sums up the {others} smallest cohorts.")


def _headline(total: Answer, answer: Answer) -> str:
    """Say in one line how the fleet did, and in which time."""
    line = f"ETT {percent(ett_ratio(total))} of {gpu_hours(total['gpu_seconds'])} GPU-hours"
    if total["target"] is not None:
        distance = total["target"]["distance"]
        line += f", {points(distance)} from the target {percent(total['target']['ett_ratio'])}"
    return f"{line}, {minute(answer['from'])} to {minute(answer['to'])} (UTC)"


def group_columns(dimensions: Sequence[str]) -> list[Column]:
    """Return a column for each dimension that an answer is grouped by."""
    return [text(dimension, _value_of(dimension)) for dimension in dimensions]


def _value_of(dimension: str) -> Callable[[Answer], str]:
    def value(group: Answer) -> str:
        if group["other"]:
            return "(other)"
        return group["group"][dimension] or "(unknown)"

    return value


def _write_categories(total: Answer) -> None:
    costs = total["cost"]["by_category"] or {}
    currency = total["cost"]["currency"]
    whole = total["weighted_seconds"]
    columns = (
        text("category", itemgetter(0)),
        number("share", itemgetter(1), percent),
        number("GPU-h", itemgetter(2), gpu_hours),
        number("cost", itemgetter(3), partial(money, currency=currency)),
    )
    rows = [
        (name, seconds / whole, total["gpu_categories"].get(name, 0.0), costs.get(name))
        for name, seconds in total["weighted_categories"].items()
        if seconds
    ]
    sums = ("all", 1.0 if whole else None, total["gpu_seconds"], total["cost"]["total"])
    write_line()
    write_table(columns, rows, last=cells(columns, sums))


def _write_owners(total: Answer) -> None:
    """Write whose the waits were: GPU-hours where accelerators are known, and wall time."""
    rows = [
        (owner, total["weighted_owners"][owner], seconds, total["queue_owners"][owner])
        for owner, seconds in total["owners"].items()
        if seconds or total["queue_owners"][owner]
    ]
    if rows:
        write_line()
        write_table(_OWNERS, sorted(rows, key=itemgetter(1), reverse=True))


def _write_failures(total: Answer) -> None:
    failures, mtbf = total["failures"], total["mtbf"]
    write_line()
    write_table(
        _SPREAD,
        [{"name": name.replace("_", " "), **total[name]} for name in _MEASURES if total[name]],
    )
    write_line()
    write_line(
        f"{count(failures['total'])} failures, {count(failures['infra'])} of them infra; "
        f"mean time between failures {duration(mtbf['seconds'])} "
        f"({mtbf['confidence']:.0%}: {duration(mtbf['low'])} to {duration(mtbf['high'])})"
    )


VERB = Verb(
    epilog="Examples: `ett fleet --by team`, `ett fleet --where model:llm-70b --step 1d`.",
    options=(by, window, scope, _options, server),
    run=_fleet,
    write=_write,
)
