"""Why ETT% is not what it was last week."""

from collections.abc import Sequence

from ett_service.charts.bridge import Step, bridge
from ett_service.charts.units import count, percent, points
from ett_service.report.gather import Gathered
from ett_service.report.headline import part_name
from ett_service.report.page import Answer, Section, table

_MOST_PARTS = 10
_SEEN = 0.05  # points; what is less is shown as 0.0
_EXPLAINED = (
    "The parts are an exact split of the change: mix is a cohort's weight that moved, the others "
    "are shares of a cohort's own time."
)


def change(gathered: Gathered) -> Section:
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
            "part|#change|#last week|#this week|jobs that weigh most",
            [_row(part, answer) for part in parts],
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


def _row(part: Answer, answer: Answer) -> tuple[str, ...]:
    return (
        part_name(part, answer),
        points(part["points"] / 100),
        percent(part["base"]),
        percent(part["current"]),
        ", ".join(job["job"] for job in part["jobs"]),
    )
