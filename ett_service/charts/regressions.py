"""What regressions are called for people: subjects, cohorts, values in their units."""

from collections.abc import Mapping
from typing import Any

from ett_service.charts.units import NONE, amount, duration, money, percent, points
from ett_service.core.regression import Unit

Answer = Mapping[str, Any]

ALL = "(all)"
"""The cohort of all of a project."""

_RATE_PER = 1_000  # GPU-hours


def subject(found: Answer) -> str:
    """Name what is watched: the phase and stage if it is the time of one, else the metric."""
    if found["metric"] in ("phase_seconds", "stage_seconds"):
        return " / ".join(found[name] for name in ("phase", "stage") if found[name])
    return " ".join(filter(None, (found["metric"], found["cause"])))


def cohort(values: Mapping[str, str]) -> str:
    """Name a cohort: ``cluster:eu-1 model:llm-70b``."""
    return " ".join(f"{name}:{value or '(unknown)'}" for name, value in values.items()) or ALL


def value(unit: Unit, number: float | None) -> str:
    """Show a value in the unit of its metric, which is next to nothing for failures by the hour."""
    if number is None:
        return NONE
    match unit:
        case "seconds":
            return duration(number)
        case "ratio":
            return percent(number)
        case "failures_per_gpu_hour":
            return f"{number * _RATE_PER:,.2f} per 1,000 GPU-h"


def factor(ratio: float | None) -> str:
    """Show after over before."""
    return NONE if ratio is None else f"x {ratio:.2f}"


def change(found: Answer) -> str:
    """Show before and after: ``8m 06s -> 13m 24s``."""
    before, after = (value(found["unit"], found[side]["median"]) for side in ("before", "after"))
    return f"{before} -> {after}"


def cost(impact: Answer) -> str:
    """Say what a week of it costs, as far as that is known."""
    said = []
    if impact["gpu_hours_per_week"] is not None:
        said.append(f"{amount(impact['gpu_hours_per_week'])} GPU-hours a week")
    if impact["cost_per_week"] is not None:
        said.append(money(impact["cost_per_week"], impact["currency"] or "") + " a week")
    if impact["ett_points"] is not None:
        said.append(f"{points(impact['ett_points'] / 100)} of the cohort's ETT%")
    return ", ".join(said) or "unknown: neither accelerators nor ETT% of it are known"
