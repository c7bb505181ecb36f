"""What a report asks the service, and the numbers that several sections use."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ett_service.core.planning.scenario import SCENARIOS
from ett_service.report.document import Answer, Week

Ask = Callable[[str, Mapping[str, object]], Any]
"""Returns the JSON answer of a path and its query; None is left out, lists are repeated."""

TREND_WEEKS = 8

_MOST_MARKERS = 100
_MOST_JOBS = 10
_MOST_CHANGES = 5
_MOST_REGRESSIONS = 10


@dataclass(frozen=True, slots=True)
class Gathered:
    """The answers that a report is written from."""

    week: Week
    group_by: tuple[str, ...]
    now: Answer  #: summary of the week by ``group_by``
    before: Answer  #: of the week before
    trend: Answer  #: series of ``TREND_WEEKS`` weeks
    change: Answer
    advice: Answer
    what_if: Answer
    jobs: Answer  #: those that lost most
    markers: Answer
    changes: Answer  #: what the week's markers were followed by
    waterfall: Answer  #: the same of ``TREND_WEEKS``, for the way from marker to marker
    causes: Answer  #: of the regressions that fired in the week
    regressions: Sequence[Answer]  #: the costliest of these, all that is known of each


def gather(ask: Ask, week: Week, group_by: Sequence[str], scope: Mapping[str, object]) -> Gathered:
    """Ask for a week of the part of the fleet that *scope* names, by parameter of the API.

    Raises whatever *ask* does.
    """
    begin, end = week.bounds
    base_begin, base_end = week.before().bounds
    this = {**scope, "from": begin, "to": end}
    last = {**scope, "from": base_begin, "to": base_end}
    grouped = {"group_by": ",".join(group_by) or None}
    first = week.before(TREND_WEEKS - 1).bounds[0]
    return Gathered(
        week=week,
        group_by=tuple(group_by),
        now=ask("/v1/fleet/summary", {**this, **grouped}),
        before=ask("/v1/fleet/summary", {**last, **grouped}),
        trend=ask("/v1/fleet/series", {**this, "from": first, "step": "1w"}),
        change=ask(
            "/v1/fleet/explain",
            {**this, **grouped, "base_from": base_begin, "base_to": base_end},
        ),
        advice=ask("/v1/fleet/checkpoint-advice", {**this, **grouped}),
        what_if=ask("/v1/what-if", {**this, "scenario": list(SCENARIOS)}),
        jobs=ask("/v1/fleet/jobs/top", {**this, "by": "lost_gpu", "limit": _MOST_JOBS}),
        markers=ask(
            "/v1/markers",
            {"project": scope.get("project"), "from": begin, "to": end, "limit": _MOST_MARKERS},
        ),
        changes=ask("/v1/fleet/changes", {**this, "limit": _MOST_CHANGES}),
        waterfall=ask("/v1/fleet/changes", {**this, "from": first, "limit": 1}),
        causes=ask("/v1/regressions/causes", _fired_in(week, scope)),
        regressions=_regressions(ask, week, scope),
    )


def _fired_in(week: Week, scope: Mapping[str, object]) -> dict[str, object]:
    begin, end = week.bounds
    return {
        "project": scope.get("project"),
        "where": scope.get("where"),
        "state": ["firing", "resolved"],
        "from": begin,
        "to": end,
    }


def _regressions(ask: Ask, week: Week, scope: Mapping[str, object]) -> list[Answer]:
    query: dict[str, object] = {
        **_fired_in(week, scope),
        "verdict": "regression",
        "without_noise": "true",
        "sort": "-gpu_hours_per_week",
        "limit": _MOST_REGRESSIONS,
    }
    listed = ask("/v1/regressions", query)["regressions"]
    return [
        ask(f"/v1/regressions/{regression['id']}", {"project": regression["project"]})
        for regression in listed
    ]


UNKNOWN = "(unknown)"
OTHER = "all smaller cohorts"
_HOUR = 3600.0


def name_of(group: Answer, dimensions: Sequence[str]) -> str:
    """Return what to call *group*: its values, or that it holds what is too small."""
    if group.get("other"):
        return OTHER
    return " / ".join(group["group"].get(dimension) or UNKNOWN for dimension in dimensions)


def lost_gpu_seconds(group: Answer) -> float:
    """Return the accelerators' time that was held and was not effective."""
    held: float = group["gpu_seconds"]
    effective: float = group["gpu_categories"].get("effective_training", 0.0)
    return held - effective


def ett_ratio(group: Answer) -> float | None:
    """Return the headline; None where no time has a weight."""
    ratio: float | None = group["ett_ratio"] if group["weighted_seconds"] else None
    return ratio


_PLACES = 1_000  # of ratios, among which the median job's is sought


def median_job(total: Answer) -> float | None:
    """Return the ETT% of the median job, to the tenth of a percent in which it lies.

    The answer is the middle of that tenth, which is no job's: of jobs of exactly 0 it is 0.0005.
    """
    ratio: float | None = total["ett_ratio_median_job"]
    return None if ratio is None else math.floor(ratio * _PLACES) / _PLACES


def lost_by_category(group: Answer) -> dict[str, float]:
    """Return GPU-hours by category, but for effective training."""
    return {
        category: seconds / _HOUR
        for category, seconds in group["gpu_categories"].items()
        if category != "effective_training" and seconds > 0
    }


def share(part: float, whole: float) -> float | None:
    """Divide; None where there is no whole."""
    return part / whole if whole else None
