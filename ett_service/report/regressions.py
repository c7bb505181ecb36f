"""What got lastingly worse: what fires, what was resolved, and how long that took."""

from ett_service.charts.regressions import change, cohort, subject
from ett_service.charts.units import NONE, amount, duration, money
from ett_service.report.gather import Gathered
from ett_service.report.page import Answer, Section, table

_COLUMNS = (
    "what|of|before and after|since|#GPU-hours a week|cost a week|associated with|state"
    "|#found in|#taken on in|#gone in"
)
_BREACHED = "late: "


def regressions(gathered: Gathered) -> Section:
    """List the regressions that fired in the week, the dearest first, beside what was promised."""
    found = gathered.regressions
    late = sum(_is_late(one) for one in found)
    said = f"{late} of them took longer than promised, or have by now." if late else ""
    nothing = "No regression fired. What the search cannot see: `ett regressions power`."
    return Section(
        "Regressions",
        () if found else (nothing,),
        table=table(_COLUMNS, [_row(one) for one in found]),
        after=(said,) if said else (),
    )


def _row(one: Answer) -> tuple[str, ...]:
    impact, clocks = one["impact"], one["sla"]
    return (
        subject(one),
        cohort(one["cohort"]),
        change(one),
        one["onset_at"][:10],
        amount(impact["gpu_hours_per_week"]),
        money(impact["cost_per_week"], impact["currency"] or ""),
        _suspect(one["attribution"]["suspects"]),
        one["state"],
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
    said = f"{_BREACHED if clock['breached'] else ''}{duration(clock['seconds'])}"
    return f"{said} so far" if clock["runs"] else said


def _is_late(one: Answer) -> bool:
    return any(clock is not None and clock["breached"] for clock in one["sla"].values())
