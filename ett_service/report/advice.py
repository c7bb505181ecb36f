"""What to fix first, and how often to save."""

from collections.abc import Callable, Sequence

from ett_service.charts.curve import CurvePoint, Intervals, interval_curve
from ett_service.charts.svg import Markup
from ett_service.charts.units import amount, count, duration, money, percent, points
from ett_service.core.words import Category
from ett_service.report.document import Answer, Section, table
from ett_service.report.inputs import Gathered, name_of

VERDICTS = {
    "keep": "keep",
    "save_less_often": "save less often",
    "save_more_often": "save more often",
    None: "not known",
}
"""Verdicts as they are shown; the API's are words of its own."""

FORMULA = (
    "WTT% now and at best and the gain are the formula's. Where failures lost less than half an "
    "interval each, the gain is at most what repeated training and saves took."
)
"""Why what is advised differs from what was measured."""

_TAKEN = (Category.REPEATED_TRAINING, Category.CHECKPOINT_BLOCKING)
_MOST_COHORTS = 8
_HOUR = 3600.0
_ADVICE = "cohort|#failures|#saves|#now|#best|#WTT% now|#at best|verdict|#GPU-hours to gain"


def first(gathered: Gathered) -> Section:
    """Rank what could be better by what it would have gained this week."""
    answer = gathered.what_if
    rows = [_gain(gain, answer) for gain in answer["gains"] if gain["points"] > 0]
    if not rows:
        return Section("What to fix first", ("None of what was tried would have gained anything.",))
    return Section(
        "What to fix first",
        table=table("scenario|#ETT%|#interval|#GPU-hours|#cost|#jobs", rows),
        after=(_together(answer), *_sampled(answer)),
    )


def _gain(gain: Answer, answer: Answer) -> tuple[str, ...]:
    bounds = gain["points_interval"]
    return (
        "; ".join(gain["scenarios"]),
        points(gain["points"] / 100),
        "-"
        if bounds is None
        else f"{points(bounds['low'] / 100)} to {points(bounds['high'] / 100)}",
        amount(gain["gpu_hours"]),
        money(gain["money"], answer["currency"]),
        count(gain["jobs"]),
    )


def _together(answer: Answer) -> str:
    gain = answer["together"]
    return (
        "Gains do not add up: what one scenario takes away, another cannot take again. All of them "
        f"together would have gained {points(gain['points'] / 100)} and "
        f"{amount(gain['gpu_hours'])} GPU-hours. Intervals are at {answer['confidence']:.0%}."
    )


def _sampled(answer: Answer) -> tuple[str, ...]:
    if answer["jobs_read"] >= answer["jobs"]:
        return ()
    return (f"{count(answer['jobs_read'])} of {count(answer['jobs'])} jobs, drawn at random.",)


def advice(gathered: Gathered) -> Section:
    """Show per cohort how often to save, with the curve of the one that would gain most."""
    groups = gathered.advice["groups"] or [
        {"group": {}, "other": False, **gathered.advice["total"]}
    ]
    advised = [group for group in groups if group["best"]["interval_seconds"] is not None]
    rows = [_advised(group, gathered) for group in advised[:_MOST_COHORTS]]
    chosen = advised[0] if advised else None
    return Section(
        "How often to save",
        () if rows else _why_not(gathered.advice["total"]),
        chart=chosen and interval_chart(chosen, name_of(chosen, gathered.group_by) or "the fleet"),
        table=table(_ADVICE, rows),
        after=(FORMULA, _assumed(chosen)) if chosen else (),
    )


def to_gain(advised: Answer, groups: Sequence[Answer]) -> str:
    """Show the GPU-hours that the best interval would gain, at most what its group lost.

    *groups* are those of the fleet's summary, grouped alike.
    """
    gain = advised["gain"] and advised["gain"]["gpu_hours"]
    for group in groups if gain is not None else ():
        if group["group"] == advised["group"] and group["other"] == advised["other"]:
            lost = sum(group["gpu_categories"].get(category, 0.0) for category in _TAKEN) / _HOUR
            return f"up to {amount(lost)}" if gain > lost else amount(gain)
    return amount(gain)


def _advised(group: Answer, gathered: Gathered) -> tuple[str, ...]:
    best, current = group["best"], group["current"]
    bounds = f" ({duration(best['low'])} to {duration(best['high'])})" if best["high"] else ""
    return (
        name_of(group, gathered.group_by) or "all",
        count(group["n"]["failures"]),
        count(group["n"]["saves"]),
        duration(current and current["interval_seconds"]),
        duration(best["interval_seconds"]) + bounds,
        percent(current and current["wasted_ratio"]),
        percent(best["wasted_ratio"]),
        VERDICTS[group["verdict"]],
        to_gain(group, gathered.now["groups"] or [gathered.now["total"]]),
    )


def interval_chart(
    group: Answer, name: str, part_href: Callable[[Category], str] | None = None
) -> Markup:
    """Draw the waste over the interval for a *group* of which the best interval is known.

    For *part_href* see ``interval_curve``.
    """
    best, band, current = group["best"], group["flat_band"], group["current"]
    likely = (best["low"], best["high"]) if best["low"] and best["high"] else None
    return interval_curve(
        "curve",
        f"Waste by checkpoint interval, {name}",
        [
            CurvePoint(point["interval_seconds"], point["unsaved_ratio"], point["blocking_ratio"])
            for point in group["curve"]
        ],
        Intervals(
            best["interval_seconds"],
            (band["low"], band["high"]),
            likely,
            current and current["interval_seconds"],
        ),
        part_href,
    )


def _why_not(total: Answer) -> tuple[str, ...]:
    return (total["reason"] or "Too few measurements.",)


def _assumed(group: Answer) -> str:
    return f"Assumed: {group['assumption']}"
