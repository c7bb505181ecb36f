"""How the fleet does: against its target, against the window before, over time, and why."""

from collections.abc import Callable, Sequence
from datetime import datetime
from string import ascii_lowercase
from typing import Any

from ett_service.charts.bridge import Step, bridge
from ett_service.charts.trend import Event, Point, trend
from ett_service.charts.units import (
    cohort,
    count,
    duration,
    gpu_hours,
    money,
    percent,
    points,
    subject_in_words,
)
from ett_service.core.words import Category
from ett_service.fleet.economy import Economy
from ett_service.pages.ask import Answer, Question
from ett_service.pages.fleet.losses import FleetAnswers
from ett_service.pages.links import regression_page
from ett_service.pages.panel import FEW, Cell, Fact, Panel, table
from ett_service.pages.terms import CATEGORIES
from ett_service.pages.window import View, moment
from ett_service.report.headline import part_name
from ett_service.report.inputs import ett_ratio, share

_MOST_LABELS = 26
_SEEN = 0.05  # points; what is less is shown as 0.0


def facts(now: Answer, before: Answer, earlier: str) -> list[Fact]:
    """Return the numbers that stand first; *earlier* is what the window before is called."""
    starts, recoveries = now["time_to_start"], now["time_to_recover"]
    return [
        _ratio_fact("ETT%", "by accelerators", "ett_ratio", (now, before), earlier),
        _ratio_fact("ETT% by wall time", "by wall time", "ett_ratio_wall", (now, before), earlier),
        _spread("time to start", starts),
        _spread("time to recover", recoveries),
        Fact(
            "failures", count(now["failures"]["total"]), f"{count(now['attempts'])} attempts began"
        ),
        Fact("GPU-hours", gpu_hours(now["gpu_seconds"]), f"of {count(now['jobs'])} jobs"),
    ]


def _ratio_fact(
    term: str, weighting: str, member: str, windows: tuple[Answer, Answer], earlier: str
) -> Fact:
    change = _moved(member, *windows)
    note = f"{weighting}, against {earlier}" if change else weighting
    return Fact(term, percent(windows[0][member]), note, change)


def _spread(term: str, values: Answer) -> Fact:
    n = values["count"]
    note = f"p50; p90 {duration(values['p90'])}, n={count(n)}"
    return Fact(term, duration(values["p50"]), note, is_faint=n < FEW)


def _moved(member: str, now: Answer, before: Answer) -> str:
    new, old = _ratio(member, now), _ratio(member, before)
    return "" if new is None or old is None else points(new - old)


def _ratio(member: str, total: Answer) -> float | None:
    """Return a ratio; None where there was nothing to divide by."""
    whole = "weighted_seconds" if member == "ett_ratio" else "jobs"
    ratio: float | None = total[member] if total[whole] else None
    return ratio


def target_bridge(gathered: FleetAnswers) -> Panel:
    """Draw which categories stand between the whole of the time and ETT%, and the target."""
    total, view = gathered.now["total"], gathered.view
    whole = total["weighted_seconds"]
    lost = sorted(
        (
            (category, total["weighted_categories"].get(category, 0.0))
            for category in Category
            if category is not Category.EFFECTIVE_TRAINING
        ),
        key=lambda part: -part[1],
    )
    seen = [(category, seconds) for category, seconds in lost if seconds > 0]
    target = total["target"]
    chart = bridge(
        "to-target",
        "From all accelerator time to ETT%, category by category",
        ("all time", 1.0),
        [Step(category, -seconds / whole, view.lost_to(category)) for category, seconds in seen],
        ("ETT%", ett_ratio(total) or 0.0),
        target=target and target["ett_ratio"],
    )
    before = gathered.before["total"]
    rows = [
        (
            Cell(
                category,
                href=view.lost_to(category),
                title=CATEGORIES[category],
                swatch=category,
            ),
            percent(share(seconds, whole)),
            points(_change(category, seconds, whole, before)),
            gpu_hours(total["gpu_categories"].get(category, 0.0)),
            money((total["cost"]["by_category"] or {}).get(category), total["cost"]["currency"]),
        )
        for category, seconds in [
            (
                Category.EFFECTIVE_TRAINING,
                total["weighted_categories"][Category.EFFECTIVE_TRAINING],
            ),
            *seen,
        ]
    ]
    return Panel(
        "to-target",
        "Where the time goes",
        before=_to_target(target),
        chart=chart if seen else None,
        table=table(f"category|#share|#against {view.earlier}|#GPU-hours|#cost", rows),
        after=(
            "Shares are of time weighted by accelerators, held or not.",
            "GPU-hours and cost count accelerators while they were held.",
        ),
        question=gathered.question.of(
            "total.weighted_categories,total.gpu_categories,total.cost.by_category"
        ),
    )


def _to_target(target: Answer | None) -> tuple[str, ...]:
    if target is None or target["distance"] is None:
        return ()
    side = "under" if target["distance"] < 0 else "over"
    distance = abs(target["distance"]) * 100
    return (f"{distance:.1f} points {side} the target of {percent(target['ett_ratio'])}.",)


def _change(category: Category, seconds: float, whole: float, before: Answer) -> float | None:
    earlier = share(before["weighted_categories"].get(category, 0.0), before["weighted_seconds"])
    return None if earlier is None else seconds / whole - earlier


def trend_panel(
    view: View,
    answer: Answer,
    markers: Sequence[Answer],
    regressions: Sequence[Answer],
    question: Question,
) -> Panel:
    """Draw ETT% over time, with what was marked and what regressed."""
    steps = answer["points"]
    shown = [
        Point(
            _day(step["start"]),
            ett_ratio(step),
            view.during(step["start"], step["end"]),
            _part_of(place, step),
        )
        for place, step in enumerate(steps)
    ]
    happened = _happened(markers, regressions, steps)
    return Panel(
        "trend",
        "ETT% over time",
        chart=trend(
            "trend",
            f"ETT% in {len(steps)} steps of {answer['step']}, by accelerators",
            shown,
            target=answer["target"],
            events=[event for event, _ in happened],
        ),
        table=table(
            "begin (UTC)|#ETT%|#GPU-hours|#jobs|#failures",
            (
                (
                    Cell(moment(step["start"]), href=point.href),
                    Cell(point.in_words(percent), is_faint=step["partial"]),
                    gpu_hours(step["gpu_seconds"]),
                    count(step["jobs"]),
                    count(step["failures"]),
                )
                for point, step in zip(shown, steps, strict=True)
            ),
        ),
        listed=[Cell(text, href=event.href) for event, text in happened],
        after=(
            f"By accelerators, from {moment(answer['from'])} (UTC) in steps of {answer['step']}.",
        ),
        question=question,
    )


def _part_of(place: int, step: Answer) -> str:
    """Say what is measured of a step that is not whole: the window cuts off the first's begin."""
    if not step["partial"]:
        return ""
    return "so far" if place else "in part"


def _day(instant: str) -> str:
    at = datetime.fromisoformat(instant)
    return f"{at:%b} {at.day}"


def _happened(
    markers: Sequence[Answer], regressions: Sequence[Answer], steps: Sequence[Answer]
) -> list[tuple[Event, str]]:
    """Place what happened on the axis, by letters that a list below the chart explains."""
    inside = [
        (place, f"{moment(marker['at'])} {marker['kind']}: {marker['title']}")
        for marker in reversed(markers)
        if 0 <= (place := _place(marker["at"], steps)) <= len(steps) - 1
    ]
    events = [
        (
            Event(place, letter, tooltip=text),
            f"{letter}: {text}",
        )
        for letter, (place, text) in zip(ascii_lowercase, inside, strict=False)
    ]
    for number, finding in enumerate(regressions[:_MOST_LABELS], 1):
        place = _place(finding["onset_at"], steps)
        text = f"{finding['verdict']}: {subject_in_words(finding)}, {cohort(finding['cohort'])}"
        href = regression_page(finding["id"], finding["project"])
        if 0 <= place <= len(steps) - 1:
            line = f"{moment(finding['onset_at'])} {text}"
            events.append((Event(place, f"R{number}", href, line), f"R{number}: {line}"))
    return events


def _place(instant: str, steps: Sequence[Answer]) -> float:
    if not steps:
        return -1.0
    first, second = (datetime.fromisoformat(steps[0][end]) for end in ("start", "end"))
    return (datetime.fromisoformat(instant) - first) / (second - first)


def change_panel(gathered: FleetAnswers, question: Question) -> Panel:
    """Show the exact parts that lead from the ETT% of the window before to this one."""
    answer, view = gathered.change, gathered.view
    title = f"Why it changed against {view.earlier}"
    if not answer["comparable"]:
        return Panel("change", title, before=("There is no earlier window to compare with.",))
    parts = [part for part in answer["parts"] if abs(part["points"]) >= _SEEN]
    steps = [
        Step(
            part_name(part, answer),
            part["points"] / 100,
            "" if part["other"] else view.narrowed(view.group_by, part["group"][view.group_by]),
        )
        for part in parts
    ]
    chart = bridge(
        "change",
        f"From the ETT% of {view.earlier} to this window's",
        (view.earlier, answer["base"]["ett_ratio"]),
        steps,
        ("this window", answer["current"]["ett_ratio"]),
    )
    changed, mix, within = (
        points(answer[f"{name}_points"] / 100) for name in ("change", "mix", "within")
    )
    return Panel(
        "change",
        title,
        before=(f"ETT% changed by {changed}: {mix} by mix, {within} within cohorts.",),
        chart=chart,
        table=table(
            f"part|#points|#{view.earlier}|#this window",
            (_part(step, part) for step, part in zip(steps, parts, strict=True)),
        ),
        after=(
            (
                "The parts add up to the change exactly. Mix is a change of a cohort's weight; the "
                "other parts are changes of shares of a cohort's own time."
            ),
        ),
        question=question,
    )


def _part(step: Step, part: Answer) -> tuple[Cell | str, ...]:
    return (
        Cell(step.name, href=step.href),
        points(step.change),
        percent(part["base"]),
        percent(part["current"]),
    )


def comparisons(gathered: FleetAnswers, economy: Economy) -> list[Panel]:
    """Set the numbers of this window beside those of the window before, a weighting a table."""
    now, before = gathered.now["total"], gathered.before["total"]
    by_accelerators = [
        _ratios("ETT% by accelerators", "ett_ratio", now, before),
        ("GPU-hours", *_both(now, before, lambda total: gpu_hours(total["gpu_seconds"])), ""),
        ("cost", *_both(now, before, _cost), ""),
    ]
    by_wall_time = [
        _ratios("ETT% by wall time", "ett_ratio_wall", now, before),
        _ratios("WTT% by wall time", "wasted_ratio", now, before),
        (
            "MTBF by running time",
            *_both(now, before, lambda total: duration(total["mtbf"]["seconds"])),
            "",
        ),
        _plain("unsaved training", "unsaved_training_seconds", duration, now, before),
        _plain("queue wait", "queue_wait_seconds", duration, now, before),
    ]
    by_job = [
        _ratios("ETT% of the median job", "ett_ratio_median_job", now, before),
        _plain("jobs", "jobs", count, now, before),
        _plain("attempts", "attempts", count, now, before),
        ("failures", *_both(now, before, lambda total: count(total["failures"]["total"])), ""),
    ]
    return [
        _compared(
            gathered, "by accelerators", by_accelerators, (_prices(economy), *_unpriced(now))
        ),
        _compared(gathered, "by wall time", by_wall_time),
        _compared(gathered, "job by job", by_job),
    ]


def _plain(
    name: str, member: str, shown: Callable[[Any], str], now: Answer, before: Answer
) -> tuple[str, ...]:
    return (name, shown(now[member]), shown(before[member]), "")


def _ratios(name: str, member: str, now: Answer, before: Answer) -> tuple[str, ...]:
    new, old = percent(_ratio(member, now)), percent(_ratio(member, before))
    return (name, new, old, _moved(member, now, before) or "-")


def _compared(
    gathered: FleetAnswers, by: str, rows: Sequence[tuple[str, ...]], after: tuple[str, ...] = ()
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
