"""Answers about what the last search for regressions could have seen."""

from typing import Any

from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, Instant, Seconds
from ett_service.core.regressions.finding import Metric

_RUN: dict[str, Any] = {
    "project": "research",
    "at": "2026-11-16T00:00:00.000000Z",
    "took_seconds": 1.93,
    "series": 212,
}
EXAMPLE_POWER: dict[str, Any] = {
    "project": "research",
    "metric": "phase_seconds",
    "phase": "pt2_compile",
    "stage": None,
    "cause": None,
    "cohort": {"cluster": "eu-1", "model": "llm-70b"},
    "recent": 68,
    "baseline": 140,
    "smallest": 1.22,
}


class PowerAnswer(Answer):
    """What could have been seen of one series."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE_POWER})

    project: str
    metric: Metric
    phase: str | None
    stage: str | None
    cause: str | None
    cohort: dict[str, str] = Field(description="Empty for all of the project.")
    recent: int = Field(description="Values in the recent window.")
    baseline: int = Field(description="Values in the window that it is compared with.")
    smallest: float | None = Field(
        description="A change by this factor is found in 80 of 100 cases; null: none could be. "
        "Of `ett_ratio` it is the factor of the time that is lost."
    )


class RunAnswer(Answer):
    """The last search of a project."""

    project: str
    at: Instant = Field(description="Up to when it looked.")
    took_seconds: Seconds
    series: int = Field(description="How many it looked at.")


class PowerPage(Answer):
    """A page of what could have been seen, and the searches that it is of."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"runs": [_RUN], "power": [EXAMPLE_POWER], "next_cursor": None}
        }
    )

    runs: list[RunAnswer] = Field(description="Empty before the first.")
    power: list[PowerAnswer]
    next_cursor: str | None = Field(description="Sent as `cursor` it gives the next page.")
