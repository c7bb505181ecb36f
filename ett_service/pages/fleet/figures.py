"""The numbers of a window, beside those of the window before."""

from collections.abc import Callable, Sequence
from typing import Any

from ett_service.charts.units import count, duration, gpu_hours, many, money, percent, points
from ett_service.fleet.economy import Economy
from ett_service.pages.ask import Answer
from ett_service.pages.fleet.answers import (
    BY_ACCELERATORS,
    BY_WALL_TIME,
    FleetAnswers,
    Weight,
    change,
    weight_of,
)
from ett_service.pages.panel import FEW, Cell, Fact, Panel, table
from ett_service.report.inputs import median_job


def facts(now: Answer, before: Answer, earlier: str) -> list[Fact]:
    """Return the numbers that stand first; *earlier* is what the window before is called."""
    starts, recoveries = now["time_to_start"], now["time_to_recover"]
    is_weighted = weight_of(now) is BY_ACCELERATORS
    return [
        _ratio_fact("ETT%", BY_ACCELERATORS, (now, before), earlier),
        _ratio_fact("ETT% by wall time", BY_WALL_TIME, (now, before), earlier),
        _spread("time to start", starts),
        _spread("time to recover", recoveries),
        Fact(
            "failures",
            count(now["failures"]["total"]),
            f"{many(now['attempts'], 'attempt')} began",
        ),
        Fact(
            "GPU-hours",
            gpu_hours(now["gpu_seconds"] if is_weighted else None),
            f"of {many(now['jobs'], 'job')}",
        ),
    ]


def _ratio_fact(term: str, weight: Weight, windows: tuple[Answer, Answer], earlier: str) -> Fact:
    new, old = map(weight.ett_ratio, windows)
    difference = change(new, old)
    if difference is None:
        return Fact(term, percent(new), weight.name)
    return Fact(term, percent(new), f"{weight.name}, against {earlier}", points(difference))


def _spread(term: str, values: Answer) -> Fact:
    n = values["count"]
    note = f"p50; p90 {duration(values['p90'])}, n={count(n)}"
    return Fact(term, duration(values["p50"]), note, is_faint=n < FEW)


def comparisons(gathered: FleetAnswers, economy: Economy) -> list[Panel]:
    """Set the numbers of this window beside those of the window before, a weighting a table."""
    now, before = gathered.now["total"], gathered.before["total"]
    by_accelerators = [
        _ratios("ETT% by accelerators", BY_ACCELERATORS.ett_ratio, now, before),
        ("GPU-hours", *_both(now, before, lambda total: gpu_hours(total["gpu_seconds"])), ""),
        ("cost", *_both(now, before, _cost), ""),
    ]
    by_wall_time = [
        _ratios("ETT% by wall time", BY_WALL_TIME.ett_ratio, now, before),
        _ratios("WTT% by wall time", _wasted_ratio, now, before),
        (
            "MTBF by running time",
            *_both(now, before, lambda total: duration(total["mtbf"]["seconds"])),
            "",
        ),
        _plain("unsaved training", "unsaved_training_seconds", duration, now, before),
        _plain("queue wait", "queue_wait_seconds", duration, now, before),
    ]
    by_job = [
        _median_job(now, before),
        _plain("jobs", "jobs", count, now, before),
        _plain("attempts", "attempts", count, now, before),
        ("failures", *_both(now, before, lambda total: count(total["failures"]["total"])), ""),
    ]
    by_weight = [
        _compared(gathered, "by wall time", by_wall_time),
        _compared(gathered, "job by job", by_job),
    ]
    if gathered.weight is BY_WALL_TIME:
        return by_weight
    after = (_prices(economy), *_unpriced(now))
    return [_compared(gathered, "by accelerators", by_accelerators, after), *by_weight]


def _wasted_ratio(total: Answer) -> float | None:
    """Return WTT%; None where no job was."""
    ratio: float | None = total["wasted_ratio"] if total["jobs"] else None
    return ratio


def _median_job(now: Answer, before: Answer) -> tuple[Cell | str, ...]:
    name, *ratios, changed = _ratios("ETT% of the median job", median_job, now, before)
    jobs = (now["jobs"], before["jobs"])
    return (name, *map(_of_jobs, ratios, jobs), Cell(changed, is_faint=min(jobs) < FEW))


def _of_jobs(text: str, jobs: int) -> Cell | str:
    if not 0 < jobs < FEW:
        return text
    return Cell(f"{text} (of {many(jobs, 'job')})", title="Too few to compare.", is_faint=True)


def _plain(
    name: str, member: str, shown: Callable[[Any], str], now: Answer, before: Answer
) -> tuple[str, ...]:
    return (name, shown(now[member]), shown(before[member]), "")


def _ratios(
    name: str, ratio: Callable[[Answer], float | None], now: Answer, before: Answer
) -> tuple[str, ...]:
    new, old = ratio(now), ratio(before)
    return (name, percent(new), percent(old), points(change(new, old)))


def _compared(
    gathered: FleetAnswers,
    by: str,
    rows: Sequence[Sequence[Cell | str]],
    after: tuple[str, ...] = (),
) -> Panel:
    earlier = gathered.view.earlier
    return Panel(
        f"compared-{by.replace(' ', '-')}",
        f"This window against {earlier}, {by}",
        table=table(f"|#this window|#{earlier}|#change", rows),
        after=after,
        is_table_open=True,
    )


def _both(now: Answer, before: Answer, shown: Callable[[Answer], str]) -> tuple[str, str]:
    return shown(now), shown(before)


def _cost(total: Answer) -> str:
    return money(total["cost"]["total"], total["cost"]["currency"])


def _prices(economy: Economy) -> str:
    listed = ", ".join(
        f"{price.hardware} {float(price.per_gpu_hour):.2f}" for price in economy.prices
    )
    if not listed:
        return "No prices are configured: set `prices` to see cost."
    return f"Prices an accelerator-hour in {economy.currency}: {listed}."


def _unpriced(total: Answer) -> tuple[str, ...]:
    unpriced = total["cost"]["unpriced_gpu_seconds"]
    return (f"{gpu_hours(unpriced)} GPU-hours have no price.",) if unpriced else ()
