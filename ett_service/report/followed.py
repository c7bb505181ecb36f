"""What the week's markers were followed by, and how the time to start went from one to the next."""

from ett_service.charts.bridge import SECONDS, Step, bridge
from ett_service.charts.svg import Markup
from ett_service.charts.units import count, duration, longer, points
from ett_service.report.gather import TREND_WEEKS, Gathered
from ett_service.report.page import Answer, Section, table

_COLUMNS = "marker|measure|#n before|#before|#n after|#after|#difference|#interval"


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
        "What changes were followed by",
        () if rows else ("Nothing was marked, or too little happened around it.",),
        chart=_waterfall(steps) if len(steps) > 1 else None,
        table=table(_COLUMNS, rows),
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
        "Means of what began in the 14 days before and after, as far as no like marker lies "
        f"between; intervals hold {gathered.changes['confidence']:.0%}."
    )


def _waterfall(steps: list[Answer]) -> Markup | None:
    """Draw the mean time to start from marker to marker: the steps sum to its whole change."""
    begun = next(
        (place for place, step in enumerate(steps) if step["mean_seconds"] is not None), None
    )
    if begun is None:
        return None
    known = [step["mean_seconds"] for step in steps if step["mean_seconds"] is not None]
    moved = [
        Step(step["marker"]["title"], step["step_seconds"])
        for step in steps[begun + 1 :]
        if step["marker"] and step["mean_seconds"] is not None
    ]
    return bridge(
        "waterfall",
        f"Mean time to start of {TREND_WEEKS} weeks, from marker to marker",
        ("mean time to start", known[0]),
        moved,
        ("now", known[-1]),
        unit=SECONDS,
    )
