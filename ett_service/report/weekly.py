"""The weekly report of a fleet, and its sections on what time was spent and failed on."""

from collections.abc import Sequence

from ett_service.charts.bars import Bar, stacked_bars
from ett_service.charts.units import (
    count,
    duration,
    failure_counts,
    gpu_hours,
    money,
    percent,
    points,
    time_between_failures,
)
from ett_service.core.words import Category
from ett_service.report.advice import advice, first
from ett_service.report.changes import causes, ett_change, followed, markers, quality, regressions
from ett_service.report.document import Answer, Report, Section, table
from ett_service.report.headline import by_job, by_wall_time, course, headline, sentence
from ett_service.report.inputs import (
    Gathered,
    ett_ratio,
    lost_by_category,
    lost_gpu_seconds,
    name_of,
    share,
)

_MOST_COHORTS = 12
_MOST_BARS = 6
_HOUR = 3600.0


def categories(gathered: Gathered) -> Section:
    """Show each category's GPU-hours, share and cost, and how its share moved."""
    now, before = gathered.now["total"], gathered.before["total"]
    rows = [
        _category(category, now, before)
        for category in Category
        if now["weighted_categories"].get(category) or before["weighted_categories"].get(category)
    ]
    spent = {
        Category(name): seconds / _HOUR for name, seconds in now["weighted_categories"].items()
    }
    chart = stacked_bars("categories", "Accelerator time by category", [Bar("", spent)])
    return Section(
        "Where the time went",
        chart=chart if rows else None,
        table=table("category|#share|#change|#GPU-hours|#cost", rows),
        after=_unpriced(now),
    )


def _category(category: Category, now: Answer, before: Answer) -> tuple[str, ...]:
    new, old = (
        share(total["weighted_categories"].get(category, 0.0), total["weighted_seconds"])
        for total in (now, before)
    )
    cost = now["cost"]
    by_category = cost["by_category"] or {}
    return (
        str(category),
        percent(new),
        points(None if new is None or old is None else new - old),
        gpu_hours(now["gpu_categories"].get(category, 0.0)),
        money(by_category.get(category), cost["currency"]),
    )


def _unpriced(total: Answer) -> tuple[str, ...]:
    unpriced = total["cost"]["unpriced_gpu_seconds"]
    notes = [
        (
            "Shares are of time weighted by accelerators. GPU-hours count held accelerators only, "
            "so queueing, scheduling and waits without hardware have none."
        )
    ]
    if unpriced:
        notes.append(f"{gpu_hours(unpriced)} GPU-hours have no price in the settings.")
    return tuple(notes)


def cohorts(gathered: Gathered) -> Section:
    """Rank the groups by the GPU-hours that they lost."""
    ranked = sorted(gathered.now["groups"], key=lost_gpu_seconds, reverse=True)
    ranked = [group for group in ranked if lost_gpu_seconds(group) > 0]
    whole = lost_gpu_seconds(gathered.now["total"])
    rows = [_cohort(group, gathered, whole) for group in ranked[:_MOST_COHORTS]]
    bars = [
        Bar(
            name_of(group, gathered.group_by),
            {Category(name): hours for name, hours in lost_by_category(group).items()},
            f"{gpu_hours(lost_gpu_seconds(group))} GPU-h",
        )
        for group in ranked[:_MOST_BARS]
    ]
    full = max((bar.total for bar in bars), default=0.0)
    names = ", ".join(gathered.group_by)
    left = len(ranked) - len(rows)
    return Section(
        f"Most GPU-hours lost, by {names}" if names else "GPU-hours lost",
        chart=stacked_bars("cohorts", "GPU-hours lost", bars, full=full) if bars else None,
        table=table(
            "cohort|#lost GPU-hours|#share of loss|#ETT%|#last week|largest loss|#total cost", rows
        ),
        after=(f"{count(left)} more with smaller losses.",) if left > 0 else (),
    )


def _cohort(group: Answer, gathered: Gathered, whole: float) -> tuple[str, ...]:
    lost = lost_by_category(group)
    largest = max(lost, key=lambda category: lost[category])
    before = next(
        (old for old in gathered.before["groups"] if _same(old, group) and old["jobs"]), None
    )
    return (
        name_of(group, gathered.group_by),
        gpu_hours(lost_gpu_seconds(group)),
        percent(share(lost_gpu_seconds(group), whole)),
        percent(ett_ratio(group)),
        percent(before and ett_ratio(before)),
        f"{largest}, {gpu_hours(lost[largest] * _HOUR)} GPU-h",
        money(group["cost"]["total"], group["cost"]["currency"]),
    )


def _same(group: Answer, other: Answer) -> bool:
    return bool(group["group"] == other["group"] and group["other"] == other["other"])


def jobs(gathered: Gathered) -> Section:
    """List the jobs that lost most."""
    rows = [
        (
            job["job"],
            job["project"],
            percent(job["ett_ratio"]),
            gpu_hours(job["lost_gpu_seconds"]),
        )
        for job in gathered.jobs["jobs"]
    ]
    return Section(
        "Jobs that lost most",
        table=table("job|project|#ETT%|#lost GPU-hours", rows),
    )


_SPREADS = {
    "time to start": "time_to_start",
    "time to recover, where it resumed after a failure": "time_to_recover",
    "checkpoint blocking": "checkpoint_blocking",
}
_FEW = 8  # fewer values than these say little


def failures(gathered: Gathered) -> Section:
    """Rank the causes of failures, and say how often each occurred."""
    now, before = gathered.now["total"], gathered.before["total"]
    whole = now["failures"]["total"]
    last = {_cause(failure): failure["count"] for failure in before["failures"]["by"]}
    ranked = sorted(now["failures"]["by"], key=lambda failure: (-failure["count"], _cause(failure)))
    rows = [
        (
            _cause(failure),
            count(failure["count"]),
            percent(share(failure["count"], whole)),
            count(last.get(_cause(failure), 0)),
        )
        for failure in ranked
    ]
    return Section(
        "Failures by cause",
        (_rates(now),),
        table=table("cause|#failures|#of all|#last week", rows),
    )


def _cause(failure: Answer) -> str:
    return f"{failure['origin']}: {failure['cause']}"


def _rates(now: Answer) -> str:
    counts = now["failures"]
    return (
        f"{failure_counts(counts['total'], counts['infra'])}"
        f"{_per(counts['per_1000_gpu_hours'], '1,000 GPU-hours')}"
        f"{_per(counts['per_1000_node_days'], '1,000 node-days')}. "
        f"Mean time between failures: {time_between_failures(now['mtbf'])}."
    )


def _per(rate: float | None, unit: str) -> str:
    return "" if rate is None else f", {rate:.2f} per {unit}"


def times(gathered: Gathered) -> Section:
    """Show the distributions of what takes time around training, beside last week's medians."""
    now, before = gathered.now["total"], gathered.before["total"]
    rows = [_spread(name, now[member], before[member]) for name, member in _SPREADS.items()]
    rows += [
        _spread(f"phase {phase}", spread, before["phases"].get(phase, _NOTHING))
        for phase, spread in now["phases"].items()
    ]
    shown = [row for row in rows if row[1] != "0"]
    few = [row[0] for row in shown if int(row[1].replace(",", "")) < _FEW]
    return Section(
        "Durations",
        table=table("|#n|#mean|#p50|#p90|#p99|#last week's p50", shown),
        after=_little(few),
    )


_NOTHING: Answer = {"count": 0, "mean": None, "p50": None, "p90": None, "p99": None}


def _spread(name: str, now: Answer, before: Answer) -> tuple[str, ...]:
    values = [duration(now[member]) for member in ("mean", "p50", "p90", "p99")]
    return (name, count(now["count"]), *values, duration(before["p50"]))


def _little(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    return (f"Too few values (under {_FEW}) to compare: {', '.join(names)}.",)


_SECTIONS = (
    headline,
    by_wall_time,
    by_job,
    categories,
    course,
    ett_change,
    causes,
    regressions,
    first,
    cohorts,
    jobs,
    failures,
    times,
    advice,
    markers,
    followed,
    quality,
)


def weekly(gathered: Gathered) -> Report:
    """Write up a week; one in which no job lived has no more than its first sentence."""
    total = gathered.now["total"]
    lived = bool(total["jobs"])
    return Report(
        week=gathered.week,
        sentence=sentence(gathered),
        sections=tuple(section(gathered) for section in _SECTIONS) if lived else (),
        as_of=gathered.now["as_of"],
        ett_ratio=ett_ratio(total),
    )
