"""How the fleet does against its target, how it did over time, and why it changed."""

from collections.abc import Sequence
from datetime import datetime
from string import ascii_lowercase

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
from ett_service.pages.ask import Answer, Question
from ett_service.pages.fleet.answers import BY_ACCELERATORS, FleetAnswers, change
from ett_service.pages.links import regression_page
from ett_service.pages.panel import Cell, Panel, table
from ett_service.pages.terms import CATEGORIES
from ett_service.pages.window import moment
from ett_service.report.headline import part_name

_MOST_LABELS = 26
_SEEN = 0.05  # points; what is less is shown as 0.0


def target_bridge(gathered: FleetAnswers) -> Panel:
    """Draw which categories stand between the whole of the time and ETT%, and the target."""
    total, weight = gathered.now["total"], gathered.weight
    spent = {category: weight.spent(total, category) for category in Category}
    effective = spent.pop(Category.EFFECTIVE_TRAINING)
    seen = sorted((part for part in spent.items() if part[1] > 0), key=lambda part: -part[1])
    is_weighted = weight is BY_ACCELERATORS
    target = total["target"] if is_weighted else None
    chart = bridge(
        "to-target",
        f"From all time to ETT%, category by category, {weight.name}",
        ("all time", 1.0),
        [
            Step(category, -seconds / total[weight.whole], gathered.lost_to(category))
            for category, seconds in seen
        ],
        ("ETT%", weight.ett_ratio(total) or 0.0),
        target=target and target["ett_ratio"],
    )
    heads = "GPU-hours|#cost" if is_weighted else weight.amount
    return Panel(
        "to-target",
        "Where the time goes",
        before=_to_target(target),
        chart=chart if seen else None,
        table=table(
            f"category|#{weight.share}|#against {gathered.view.earlier}|#{heads}",
            (
                _spent(gathered, category, seconds)
                for category, seconds in ((Category.EFFECTIVE_TRAINING, effective), *seen)
            ),
        ),
        after=(
            "Shares are of time weighted by accelerators, held or not.",
            "GPU-hours and cost count accelerators while they were held.",
        )
        if is_weighted
        else ("Shares are of wall time: no job reports its accelerators.",),
        question=gathered.question.of(
            "total.weighted_categories,total.gpu_categories,total.cost.by_category"
            if is_weighted
            else "total.categories"
        ),
    )


def _spent(gathered: FleetAnswers, category: Category, seconds: float) -> tuple[Cell | str, ...]:
    total, before, weight = gathered.now["total"], gathered.before["total"], gathered.weight
    new, old = (weight.share_of(each, category) for each in (total, before))
    cost = total["cost"]
    return (
        Cell(
            category,
            href=gathered.lost_to(category),
            title=CATEGORIES[category],
            swatch=category,
        ),
        percent(new),
        points(change(new, old)),
        *(
            (
                gpu_hours(total["gpu_categories"].get(category, 0.0)),
                money((cost["by_category"] or {}).get(category), cost["currency"]),
            )
            if weight is BY_ACCELERATORS
            else (weight.shown(seconds),)
        ),
    )


def _to_target(target: Answer | None) -> tuple[str, ...]:
    if target is None or target["distance"] is None:
        return ()
    side = "under" if target["distance"] < 0 else "over"
    distance = abs(target["distance"]) * 100
    return (f"{distance:.1f} points {side} the target of {percent(target['ett_ratio'])}.",)


def trend_panel(
    gathered: FleetAnswers, answer: Answer, markers: Sequence[Answer], question: Question
) -> Panel:
    """Draw ETT% over time, with what was marked and what regressed."""
    view, weight, steps = gathered.view, gathered.weight, answer["points"]
    is_weighted = weight is BY_ACCELERATORS
    shown = [
        Point(
            _day(step["start"]),
            weight.ett_ratio(step),
            view.during(step["start"], step["end"]),
            _part_of(place, step),
        )
        for place, step in enumerate(steps)
    ]
    happened = _happened(markers, gathered.regressions, steps)
    return Panel(
        "trend",
        "ETT% over time",
        chart=trend(
            "trend",
            f"ETT% in {len(steps)} steps of {answer['step']}, {weight.name}",
            shown,
            target=answer["target"] if is_weighted else None,
            events=[event for event, _ in happened],
        ),
        table=table(
            f"begin (UTC)|#ETT%|#{'GPU-hours' if is_weighted else 'E2E'}|#jobs|#failures",
            (
                (
                    Cell(moment(step["start"]), href=point.href),
                    Cell(point.in_words(percent), is_faint=step["partial"]),
                    gpu_hours(step["gpu_seconds"])
                    if is_weighted
                    else duration(step["e2e_seconds"]),
                    count(step["jobs"]),
                    count(step["failures"]),
                )
                for point, step in zip(shown, steps, strict=True)
            ),
        ),
        listed=[Cell(text, href=event.href) for event, text in happened],
        after=(
            f"In steps of {answer['step']} from {moment(answer['from'])} (UTC), {weight.name}.",
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
