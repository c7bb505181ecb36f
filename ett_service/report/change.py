"""Why ETT% is not what it was last week."""

from ett_service.charts.bridge import Step, bridge
from ett_service.charts.units import percent, points
from ett_service.report.gather import Gathered
from ett_service.report.headline import part_name
from ett_service.report.page import Answer, Section, table

_MOST_PARTS = 10
_EXPLAINED = (
    "The parts are an exact split of the change: mix is a cohort's weight that moved, the others "
    "are shares of a cohort's own time."
)


def change(gathered: Gathered) -> Section:
    """Show the parts that lead from last week's ETT% to this week's, the largest first."""
    answer = gathered.change
    base, current = answer["base"], answer["current"]
    if not base["jobs"] or not current["jobs"]:
        return Section("Why it changed", ("There is no second week to compare with.",))
    parts = [part for part in answer["parts"] if part["change"]][:_MOST_PARTS]
    steps = [Step(part_name(part, gathered), part["change"]) for part in parts]
    ends = (
        (gathered.week.before().name, base["ett_ratio"]),
        (gathered.week.name, current["ett_ratio"]),
    )
    return Section(
        "Why it changed",
        (_summary(answer),),
        chart=bridge("change", "From last week's ETT% to this week's", ends[0], steps, ends[1]),
        table=table(
            "part|#change|#last week|#this week|jobs that weigh most",
            [_row(part, gathered) for part in parts],
        ),
        after=(_EXPLAINED,),
    )


def _summary(answer: Answer) -> str:
    within = answer["change"] - answer["mix"]
    return (
        f"ETT% changed by {points(answer['change'])}: {points(answer['mix'])} by mix, "
        f"{points(within)} within cohorts."
    )


def _row(part: Answer, gathered: Gathered) -> tuple[str, ...]:
    return (
        part_name(part, gathered),
        points(part["change"]),
        percent(part["base"]),
        percent(part["current"]),
        ", ".join(job["job"] for job in part["jobs"]),
    )
