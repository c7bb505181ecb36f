"""What changed in the week: ETT%, markers and what followed them, regressions, quality."""

from collections.abc import Sequence

from ett_service.charts.bridge import SECONDS, Step, bridge
from ett_service.charts.svg import Markup
from ett_service.charts.units import (
    NONE,
    amount,
    cohort,
    cost,
    count,
    duration,
    level_change,
    longer,
    money,
    percent,
    points,
    subject,
)
from ett_service.report.document import Answer, Section, table
from ett_service.report.headline import part_name
from ett_service.report.inputs import TREND_WEEKS, Gathered, share

_MOST_PARTS = 10
_SEEN = 0.05  # points; what is less is shown as 0.0
_EXPLAINED = (
    "The parts add up to the change exactly. Mix is a change of a cohort's weight; the other parts "
    "are changes of shares of a cohort's own time."
)


def ett_change(gathered: Gathered) -> Section:
    """Show the parts that lead from last week's ETT% to this week's, the largest first."""
    answer = gathered.change
    if not answer["comparable"]:
        return Section("Why it changed", ("There is no second week to compare with.",))
    parts = [part for part in answer["parts"] if abs(part["points"]) >= _SEEN][:_MOST_PARTS]
    steps = [Step(part_name(part, answer), part["points"] / 100) for part in parts]
    before = (gathered.week.before().name, answer["base"]["ett_ratio"])
    after = (gathered.week.name, answer["current"]["ett_ratio"])
    return Section(
        "Why it changed",
        (_summary(answer),),
        chart=bridge("change", "From last week's ETT% to this week's", before, steps, after),
        table=table(
            "part|#change|#last week|#this week|largest jobs",
            [_part_row(part, answer) for part in parts],
        ),
        after=(*_rest(parts, answer), _EXPLAINED),
    )


def _summary(answer: Answer) -> str:
    changed, mix, within = (
        points(answer[f"{name}_points"] / 100) for name in ("change", "mix", "within")
    )
    return f"ETT% changed by {changed}: {mix} by mix, {within} within cohorts."


def _rest(parts: Sequence[Answer], answer: Answer) -> tuple[str, ...]:
    left = len(answer["parts"]) + answer["rest"]["parts"] - len(parts)
    change = answer["change_points"] - sum(part["points"] for part in parts)
    return (f"{count(left)} smaller parts sum to {points(change / 100)}.",) if left else ()


def _part_row(part: Answer, answer: Answer) -> tuple[str, ...]:
    return (
        part_name(part, answer),
        points(part["points"] / 100),
        percent(part["base"]),
        percent(part["current"]),
        ", ".join(job["job"] for job in part["jobs"]),
    )


_EFFECT_COLUMNS = "marker|measure|#n before|#before|#n after|#after|#difference|#interval"


def followed(gathered: Gathered) -> Section:
    """Compare what began before a marker of the week with what began after it."""
    changes = gathered.changes["changes"]
    rows = [
        row
        for change in reversed(changes)
        for row in (_ett(change), *(_effect(change, effect) for effect in change["effects"]))
        if row[-1] != "-"
    ]
    steps = gathered.waterfall["waterfall"]["steps"]
    return Section(
        "What followed each marker",
        () if rows else ("No markers, or too few jobs around them.",),
        chart=waterfall(steps) if len(steps) > 1 else None,
        table=table(_EFFECT_COLUMNS, rows),
        after=(gathered.changes["note"], _intervals(gathered)) if rows else (),
    )


def _ett(change: Answer) -> tuple[str, ...]:
    ett, bounds = change["ett"], change["ett"]["points_interval"]
    return (
        change["marker"]["title"],
        "ETT%",
        "",
        f"{ett['before']:.1%}",
        "",
        f"{ett['after']:.1%}",
        points(None if ett["points"] is None else ett["points"] / 100),
        "-"
        if bounds is None
        else f"{points(bounds['low'] / 100)} to {points(bounds['high'] / 100)}",
    )


def _effect(change: Answer, effect: Answer) -> tuple[str, ...]:
    before, after, bounds = effect["before"], effect["after"], effect["difference_interval"]
    return (
        change["marker"]["title"],
        effect["measure"].replace("_", " ")
        if effect["measure"] != "pt2_compile"
        else "pt2_compile",
        count(before["n"]),
        duration(before["mean_seconds"]),
        count(after["n"]),
        duration(after["mean_seconds"]),
        longer(effect["difference_seconds"]),
        "-" if bounds is None else f"{longer(bounds['low'])} to {longer(bounds['high'])}",
    )


def _intervals(gathered: Gathered) -> str:
    return (
        "Means of what began in the 14 days before and after, up to the neighbouring marker of "
        f"the same kind. Intervals are at {gathered.changes['confidence']:.0%}."
    )


def waterfall(
    steps: Sequence[Answer],
    title: str = f"Mean time to start of {TREND_WEEKS} weeks, from marker to marker",
) -> Markup | None:
    """Draw the mean time to start from marker to marker: the steps sum to its whole change."""
    begun = next(
        (place for place, step in enumerate(steps) if step["mean_seconds"] is not None), None
    )
    if begun is None:
        return None
    levels = [step["mean_seconds"] for step in steps if step["mean_seconds"] is not None]
    moved = [
        Step(step["marker"]["title"], step["step_seconds"])
        for step in steps[begun + 1 :]
        if step["marker"] and step["mean_seconds"] is not None
    ]
    return bridge(
        "waterfall",
        title,
        ("mean time to start", levels[0]),
        moved,
        ("now", levels[-1]),
        unit=SECONDS,
    )


_CAUSE_COLUMNS = "cause|what|cohorts|since|#GPU-hours a week|cost a week|#findings"


def causes(gathered: Gathered) -> Section:
    """Add up the regressions that fired in the week by their cause, each cost once."""
    answer = gathered.causes
    rows = [_cause_row(cause) for cause in answer["causes"]]
    nothing = "No regression fired. What the search cannot see: `ett regressions power`."
    total = cost({**answer["total"], "ett_points": None})
    return Section(
        "Regressions by cause",
        () if rows else (nothing,),
        table=table(_CAUSE_COLUMNS, rows),
        after=(f"All together cost {total}; what is part of another counts once.",) if rows else (),
    )


def _cause_row(cause: Answer) -> tuple[str, ...]:
    first, *others = map(cohort, cause["cohorts"])
    hours, paid = cause["cost"]["gpu_hours_per_week"], cause["cost"]["cost_per_week"]
    return (
        f"{cause['dimension']} {cause['value']}" if cause["dimension"] else NONE,
        subject(cause),
        f"{first} and {count(len(others))} more" if others else first,
        cause["onset_at"][:10],
        amount(hours),
        money(paid, cause["cost"]["currency"] or ""),
        count(len(cause["findings"])),
    )


_REGRESSION_COLUMNS = (
    "what|cohort|before and after|since|#GPU-hours a week|cost a week|associated with|state"
    "|#detected in|#acknowledged in|#resolved in"
)
_BREACHED = "late: "


def regressions(gathered: Gathered) -> Section:
    """List the costliest regressions of the week one by one, against their objectives."""
    answers = gathered.regressions
    late = sum(_is_late(answer) for answer in answers)
    note = f"{late} exceeded the objectives of `detection.sla`." if late else ""
    return Section(
        "Regressions one by one",
        ("What one costs may be part of another.",) if answers else ("None.",),
        table=table(_REGRESSION_COLUMNS, [_regression_row(answer) for answer in answers]),
        after=(note,) if note else (),
    )


def _regression_row(regression: Answer) -> tuple[str, ...]:
    impact, clocks = regression["impact"], regression["sla"]
    return (
        subject(regression),
        cohort(regression["cohort"]),
        level_change(regression),
        regression["onset_at"][:10],
        amount(impact["gpu_hours_per_week"]),
        money(impact["cost_per_week"], impact["currency"] or ""),
        _suspect(regression["attribution"]["suspects"]),
        regression["state"],
        *(_clock(clocks[name]) for name in ("detect", "acknowledge", "resolve")),
    )


def _suspect(suspects: list[Answer]) -> str:
    if not suspects:
        return NONE
    first = suspects[0]
    return f"{first['dimension']} {first['value']} ({first['explains']:.0%})"


def _clock(clock: Answer | None) -> str:
    if clock is None:
        return NONE
    length = f"{_BREACHED if clock['breached'] else ''}{duration(clock['seconds'])}"
    return f"{length} so far" if clock["runs"] else length


def _is_late(regression: Answer) -> bool:
    return any(clock is not None and clock["breached"] for clock in regression["sla"].values())


def markers(gathered: Gathered) -> Section:
    """List deploys, launches and maintenance of the week, in order."""
    ordered = sorted(gathered.markers["markers"], key=lambda marker: (marker["at"], marker["id"]))
    rows = [
        (
            _minute(marker["at"]),
            _minute(marker["end"]) if marker["end"] else "",
            marker["kind"],
            marker["title"],
            ", ".join(f"{name}={value}" for name, value in sorted(marker["labels"].items())),
        )
        for marker in ordered
    ]
    note = () if rows else ("No markers.",)
    return Section("Markers of the week", note, table=table("at|to|kind|what|labels", rows))


def quality(gathered: Gathered) -> Section:
    """Show how much of the week is known how well."""
    now = gathered.now["total"]
    unattributed = share(now["categories"].get("unattributed", 0.0), now["e2e_seconds"])
    rows = [
        ("unattributed: inside an attempt, outside every phase", percent(unattributed)),
        (
            "jobs with unknown accelerators, in no weighted number",
            count(now["jobs_without_accelerators"]),
        ),
        ("their wall time", duration(now["unweighted_seconds"])),
        ("small cohorts merged into one", count(gathered.now["other_cohorts"])),
        ("excluded time", "left out" if gathered.now["exclusions"] == "left_out" else "included"),
    ]
    return Section("Data quality", table=table("|#", rows))


def _minute(instant: str) -> str:
    return instant[:16].replace("T", " ")
