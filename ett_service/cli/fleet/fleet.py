"""``ett fleet``: where the fleet's time goes, in all, by group, over time, or ranked."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from ett_service.charts.units import (
    count,
    duration,
    failure_counts,
    gpu_hours,
    many,
    money,
    percent,
    points,
    time_between_failures,
)
from ett_service.cli.arguments import by, scope, scope_query, server, window, window_query
from ett_service.cli.output import minute, write_line, write_prose
from ett_service.cli.remote import ask, fetch
from ett_service.cli.tables import (
    Answer,
    Column,
    cells,
    identifier,
    number,
    outcome,
    spare,
    styled,
    text,
    write_table,
)
from ett_service.cli.verb import Failure, Verb
from ett_service.report.inputs import UNKNOWN, ett_ratio, lost_gpu_seconds, median_job

TOPS = ("jobs", "causes", "releases")

EMPTY = "No jobs in this window. `ett jobs` lists all jobs, and --from begins earlier."

_MOST = 10
_RELEASE = "code_version"

_CAUSES = (
    text("origin"),
    text("cause"),
    number("failures", "count", count),
    number("share", "share", percent),
    number("unsaved training", "unsaved_training_seconds", duration),
)
_RELEASES = (
    identifier("release", lambda group: group["group"][_RELEASE] or UNKNOWN),
    number("jobs", "jobs", count),
    number("ETT%", ett_ratio, percent),
    number("GPU-h", "gpu_seconds", gpu_hours),
    number("lost GPU-h", lost_gpu_seconds, gpu_hours),
    number("failures", "failures.total", count),
    spare(number("start p50", "time_to_start.p50", duration)),
    spare(number("recover p50", "time_to_recover.p50", duration)),
)

_ROUNDING = 1e-3  # weighted seconds: the sums of a fleet are rounded to microseconds


def top_question(args: Namespace) -> tuple[str, dict[str, object]]:
    """Return the path and the query whose answer has what is ranked. Raises ``Failure``."""
    if args.by or args.step:
        raise Failure("--top ranks, and takes neither --by nor --step", "Leave one of them out.")
    match args.top:
        case "jobs":
            return "/v1/fleet/jobs/top", {"by": "lost_gpu", "limit": _MOST}
        case "releases":
            return "/v1/fleet/summary", {"group_by": _RELEASE, "sort": "lost"}
        case _:
            return "/v1/fleet/summary", {}


def write_top(answer: Answer, top: str) -> None:
    """Write the table of what is ranked."""
    jobs = answer["jobs"] if top == "jobs" else answer["total"]["jobs"]
    if not jobs:
        write_prose(EMPTY)
        return
    write_prose(f"{minute(answer['from'])} to {minute(answer['to'])} (UTC)")
    if top == "jobs":
        _write_jobs(answer)
    elif top == "causes":
        _write_causes(answer)
    else:
        _write_releases([group for group in answer["groups"] if not group["other"]])


def _write_jobs(answer: Answer) -> None:
    shown = partial(money, currency=answer["currency"])
    columns = (
        identifier("job"),
        styled(text("state"), outcome),
        number("ETT%", "ett_ratio", percent),
        number("lost GPU-hours", "lost_gpu_seconds", gpu_hours),
        text("most of it", _largest_loss),
        spare(number("failures", "failures", count)),
        spare(number("gpus")),
        spare(number("cost", "cost", shown)),
    )
    write_table(columns, answer["jobs"])
    write_prose("Lost GPU-hours are those that were held and not effective training.")


def _largest_loss(job: Answer) -> str:
    lost = {**job["gpu_categories"], "effective_training": 0.0}
    category, seconds = max(lost.items(), key=itemgetter(1))
    return f"{category} {percent(seconds / job['lost_gpu_seconds'])}"


def _write_causes(answer: Answer) -> None:
    failures = answer["total"]["failures"]
    by = sorted(failures["by"], key=itemgetter("unsaved_training_seconds"), reverse=True)
    total, fewer = failures["total"], by[_MOST:]
    write_table(_CAUSES, [{**each, "share": each["count"] / total} for each in by[:_MOST]])
    if fewer:
        rest = many(sum(each["count"] for each in fewer), "failure")
        write_prose(f"{many(len(fewer), 'more cause')} with {rest}.")
    write_prose(f"{failure_counts(total, failures['infra'])}.")


def _write_releases(groups: Sequence[Answer]) -> None:
    ranked = sorted(groups, key=lost_gpu_seconds, reverse=True)
    fewer = ranked[_MOST:]
    write_table(_RELEASES, ranked[:_MOST])
    if fewer:
        rest = gpu_hours(sum(map(lost_gpu_seconds, fewer)))
        write_prose(f"{many(len(fewer), 'more release')} with {rest} lost GPU-h.")
    write_prose("A job counts for each release that its attempts ran, with their time.")


def _cost(group: Answer) -> str:
    return money(group["cost"]["total"], group["cost"]["currency"])


_NUMBERS = (
    number("jobs", "jobs", count),
    number("ETT%", ett_ratio, percent),
    spare(number("slowed", "slowed_ratio", percent)),
    spare(number("data wait", "data_wait_ratio", percent)),
    number("GPU-h", "gpu_seconds", gpu_hours),
    number("lost GPU-h", lost_gpu_seconds, gpu_hours),
    number("failures", "failures.total", count),
    spare(number("start p50", "time_to_start.p50", duration)),
    spare(number("recover p50", "time_to_recover.p50", duration)),
    spare(number("between runs", "between_runs_seconds", duration)),
    spare(number("cost", _cost)),
)
_RATIOS = (
    text("weighted by", itemgetter(0)),
    number("ETT%", itemgetter(1), percent),
    number("WTT%", itemgetter(2), percent),
    number("slowed", itemgetter(3), percent),
    number("waited for data", itemgetter(4), percent),
)
_SPEEDS = (
    text("effective training", itemgetter(0)),
    number("weighted h", itemgetter(1), gpu_hours),
    number("share", itemgetter(2), percent),
    number("wall time", itemgetter(3), duration),
)
_SPREAD = (
    text("", "name"),
    number("n", "count", count),
    *(number(name, name, duration) for name in ("mean", "p50", "p90", "p99")),
)
_OWNERS = (
    text("whose wait", itemgetter(0)),
    number("weighted h", itemgetter(1), gpu_hours),
    number("starts and recoveries, wall time", itemgetter(2), duration),
    number("queue, wall time", itemgetter(3), duration),
)
_MEASURES = {
    "time_to_start": "time to start",
    "time_to_recover": "time to recover, where it resumed after a failure",
    "checkpoint_blocking": "checkpoint blocking",
}


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--step", choices=("1h", "1d", "1w"), help="show the numbers over time")
    parser.add_argument(
        "--top", choices=TOPS, help="rank jobs, causes of failures or releases by what they lost"
    )
    parser.add_argument("--csv", action="store_true", help="print the server's CSV")


def _fleet(args: Namespace) -> Any:
    """Return the answer, or the server's CSV."""
    path, query = _question(args)
    query |= {**window_query(args), **scope_query(args)}
    if args.csv:
        return fetch(args, path, {**query, "format": "csv"}).body.decode()
    return ask(args, path, query)


def _question(args: Namespace) -> tuple[str, dict[str, object]]:
    if args.top:
        return top_question(args)
    if args.step:
        return "/v1/fleet/series", {"group_by": args.by, "step": args.step}
    return "/v1/fleet/summary", {"group_by": args.by, "sort": "lost"}


def _write(answer: Any, args: Namespace) -> None:
    if args.top:
        write_top(answer, args.top)
    elif args.step:
        _write_series(answer)
    elif not answer["total"]["jobs"]:
        write_prose(EMPTY)
    else:
        _write_summary(answer)


def _write_series(answer: Answer) -> None:
    columns = (text("from (UTC)", _start), *group_columns(answer["group_by"]), *_NUMBERS)
    write_table(columns, answer["points"])
    if any(point["partial"] for point in answer["points"]):
        write_prose("(part): the window holds only a part of this step.")


def _start(point: Answer) -> str:
    return f"{minute(point['start'])}{' (part)' if point['partial'] else ''}"


def _write_summary(answer: Answer) -> None:
    total, dimensions = answer["total"], answer["group_by"]
    write_prose(_headline(total, answer))
    write_prose(_held(total))
    write_line()
    if not dimensions:
        _write_ratios(total)
        _write_speeds(total)
        _write_categories(total)
        _write_owners(total)
        _write_failures(total)
        return
    write_table(
        (*group_columns(dimensions), *_NUMBERS),
        sorted(answer["groups"], key=lost_gpu_seconds, reverse=True),
        last=("total", *[""] * (len(dimensions) - 1), *cells(_NUMBERS, total)),
    )
    write_prose("ETT% is a share of weighted hours, held or not; GPU-h are those held.")
    if answer["other_cohorts"]:
        others = count(answer["other_cohorts"])
        write_prose(f"`(other)` sums up the {others} smallest cohorts.")


def _headline(total: Answer, answer: Answer) -> str:
    """Say in one line how the fleet did, and in which time."""
    weighted = gpu_hours(total["weighted_seconds"])
    line = f"ETT {percent(ett_ratio(total))} of {weighted} weighted hours"
    if total["target"] is not None:
        distance = total["target"]["distance"]
        line += f", {points(distance)} from the target {percent(total['target']['ett_ratio'])}"
    return f"{line}, {minute(answer['from'])} to {minute(answer['to'])} (UTC)"


def _held(total: Answer) -> str:
    """Say what weighted hours are, and how many of them were held."""
    held, not_held = total["gpu_seconds"], total["weighted_seconds"] - total["gpu_seconds"]
    return (
        f"(E2E x accelerators: held for {gpu_hours(held)} GPU-hours, which cost; "
        f"for {gpu_hours(not_held)} h the jobs waited without them)"
    )


def _write_ratios(total: Answer) -> None:
    counts = [
        many(total["jobs"], "job"),
        many(total["attempts"], "attempt"),
        f"{count(total['data_wait_attempts'])} of those that ended or run report waits for data",
        f"{duration(total['between_runs_seconds'])} between runs, in no E2E",
    ]
    by_wall = ("ett_ratio_wall", "wasted_ratio", "slowed_ratio_wall", "data_wait_ratio_wall")
    rows = (
        ("accelerators", ett_ratio(total), None, total["slowed_ratio"], total["data_wait_ratio"]),
        ("wall time", *(total[name] for name in by_wall)),
        ("nothing: the median job", median_job(total), None, None, None),
    )
    write_table(_RATIOS, rows)
    write_prose(", ".join(counts))


def _write_speeds(total: Answer) -> None:
    """Write how much effective training was as fast as its jobs can be, where it is measured."""
    if total["slowed_ratio_wall"] is None:
        return
    parts = {
        "at reference speed": "effective_at_reference",
        "slowed": "slowed",
        "not measured": "speed_unmeasured",
    }
    whole = sum(total[f"{part}_weighted_seconds"] for part in parts.values())
    rows = []
    for name, part in parts.items():
        weighted = total[f"{part}_weighted_seconds"]
        share = weighted / whole if whole else None
        rows.append((name, weighted, share, total[f"{part}_seconds"]))
    write_line()
    write_table(_SPEEDS, rows)


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
    """Write a row for each category, and one more for what of it no accelerators were held."""
    costs = total["cost"]["by_category"] or {}
    whole = total["weighted_seconds"]
    columns = (
        text("category", itemgetter(0)),
        number("weighted h", itemgetter(1), gpu_hours),
        number("share", itemgetter(2), percent),
        number("cost", itemgetter(3), partial(money, currency=total["cost"]["currency"])),
    )
    rows = [
        (name, seconds, seconds / whole, costs.get(name))
        for name, seconds in total["gpu_categories"].items()
        if seconds
    ]
    rows += [
        (f"{name}, not held", seconds, seconds / whole, None) for name, seconds in _unheld(total)
    ]
    sums = ("all", whole, 1.0 if whole else None, total["cost"]["total"])
    write_line()
    write_table(columns, rows, last=cells(columns, sums))


def _unheld(total: Answer) -> Iterator[tuple[str, float]]:
    """Yield the weighted seconds of each category during which no accelerators were held."""
    for name, seconds in total["weighted_categories"].items():
        not_held = seconds - total["gpu_categories"].get(name, 0.0)
        if not_held > _ROUNDING:
            yield name, not_held


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
        [{"name": words, **total[name]} for name, words in _MEASURES.items() if total[name]],
    )
    write_line()
    write_prose(
        f"{failure_counts(failures['total'], failures['infra'])}; "
        f"mean time between failures: {time_between_failures(mtbf)}"
    )


VERB = Verb(
    epilog="Examples: `ett fleet --by team`, `ett fleet --where model:llm-70b --step 1d`, "
    "`ett fleet --top causes --from 28d`.",
    options=(by, window, scope, _options, server),
    run=_fleet,
    write=_write,
)
