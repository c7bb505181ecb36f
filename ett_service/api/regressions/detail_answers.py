"""Answers about one regression: how sure it is, what it is associated with, what was done."""

from typing import Any

from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, Instant, IntervalAnswer, Ratio, Seconds
from ett_service.api.regressions.answers import EXAMPLE_ROW, MuteAnswer, RegressionRow
from ett_service.api.regressions.power_answers import EXAMPLE_POWER, PowerAnswer

_EXAMPLE: dict[str, Any] = {
    **EXAMPLE_ROW,
    "p": 3.1e-09,
    "q": 4.5e-07,
    "gates": [{"name": "effect", "value": 1.65, "limit": 1.15, "passed": True}],
    "attribution": {
        "phase_shares": {"pt2_compile": 0.88, "launcher_init": 0.12},
        "cohort_shares": {"cluster=eu-1,model=llm-70b": 1.0},
        "suspects": [
            {
                "dimension": "image",
                "value": "trainer:2.14",
                "explains": 0.97,
                "attempts": 45,
                "first_seen_at": "2026-11-05T22:10:00.000000Z",
            }
        ],
        "markers": [
            {
                "id": "5f0c2c1e9d4b4b3c8a6d",
                "kind": "deploy",
                "title": "Trainer 2.14",
                "at": "2026-11-05T21:55:00.000000Z",
                "score": 0.9,
            }
        ],
        "examples": [{"job": "run-42", "number": 3, "link": "/v1/jobs/run-42?project=research"}],
        "within_points": -0.58,
        "mix_points": -0.02,
        "side_by_side": {
            "dimension": "image",
            "value": "trainer:2.14",
            "against": "trainer:2.13",
            "attempts": 45,
            "against_attempts": 23,
            "ratio": 1.64,
            "ratio_interval": {"low": 1.45, "high": 1.85},
            "p": 2.0e-08,
        },
    },
    "power": EXAMPLE_POWER,
    "sla": {
        "detect": {
            "seconds": 266400.0,
            "limit_seconds": 345600.0,
            "runs": False,
            "breached": False,
        },
        "acknowledge": {
            "seconds": 27000.0,
            "limit_seconds": 86400.0,
            "runs": False,
            "breached": False,
        },
        "resolve": {
            "seconds": 612000.0,
            "limit_seconds": 604800.0,
            "runs": True,
            "breached": True,
        },
    },
    "mutes": [],
    "history": [
        {
            "at": "2026-11-09T07:30:00.000000Z",
            "what": "acknowledged",
            "by": "ett_4Zk0Xw7b",
            "by_name": "on call",
            "why": "",
            "version": 1,
        }
    ],
    "links": {
        "regression": "/v1/regressions/01JCXK7V4W3M?project=research",
        "fleet": "/v1/fleet/series?project=research&step=1d",
        "markers": "/v1/markers?project=research",
    },
}


class GateAnswer(Answer):
    """One condition of the verdict."""

    name: str
    value: float | None = Field(description="Null where it could not be worked out.")
    limit: float
    passed: bool


class SuspectAnswer(Answer):
    """A value that the change is associated with. That is not yet its cause."""

    dimension: str
    value: str
    explains: Ratio = Field(description="The part of the change that goes away without it.")
    attempts: int
    first_seen_at: Instant | None


class SideBySideAnswer(Answer):
    """Attempts with the first suspect and without it after the onset, compared directly."""

    dimension: str
    value: str
    against: str = Field(description="The value of the others; empty for all of them.")
    attempts: int
    against_attempts: int
    ratio: float = Field(description="Less what they differed by before, if both ran then.")
    ratio_interval: IntervalAnswer | None = Field(description="Null where it has no bounds.")
    p: float


class NearMarkerAnswer(Answer):
    """A marker near the onset."""

    id: str
    kind: str
    title: str
    at: Instant
    score: float


class ExampleAnswer(Answer):
    """An attempt that shows it."""

    job: str
    number: int
    link: str


class AttributionAnswer(Answer):
    """Where the change lies, and what it is associated with."""

    phase_shares: dict[str, float] = Field(
        description="Of the change of time to start, or of ETT% by category."
    )
    cohort_shares: dict[str, float]
    suspects: list[SuspectAnswer] = Field(description="The one that explains most comes first.")
    markers: list[NearMarkerAnswer] = Field(description="The nearest comes first.")
    examples: list[ExampleAnswer]
    within_points: float | None = Field(description="ETT points within cohorts.")
    mix_points: float | None = Field(description="ETT points of the mix of jobs.")
    side_by_side: SideBySideAnswer | None = Field(
        description="Null without a suspect, or where nothing ran beside it."
    )


class ClockAnswer(Answer):
    """How long something took, or has taken so far, against what the settings promise."""

    seconds: Seconds
    limit_seconds: Seconds
    runs: bool = Field(description="It has not happened yet.")
    breached: bool


class ClocksAnswer(Answer):
    """The clocks of a regression; null for what has not begun."""

    detect: ClockAnswer = Field(description="From the onset until it fired.")
    acknowledge: ClockAnswer | None = Field(description="From there; being resolved ends it, too.")
    resolve: ClockAnswer | None = Field(description="From when it fired.")


class HistoryAnswer(Answer):
    """What happened to it, by whom and why."""

    at: Instant
    what: str
    by: str = Field(description="Prefix of a key; `detector` for the search itself.")
    by_name: str | None
    why: str
    version: int = Field(description="What receivers were told of by then.")


class RegressionLinks(Answer):
    """Where to read on."""

    regression: str
    fleet: str = Field(description="The time of this cohort by day, before and after.")
    markers: str = Field(description="What was done in the days around the onset.")


class RegressionAnswer(RegressionRow):
    """Everything about a finding."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    p: float = Field(description="Of the test: how often chance alone would say so.")
    q: float = Field(description="The same after correction for the number of series.")
    gates: list[GateAnswer] = Field(description="The conditions of the verdict.")
    attribution: AttributionAnswer
    power: PowerAnswer | None = Field(
        description="What the last search could have seen here; null where it did not look."
    )
    sla: ClocksAnswer | None = Field(description="Null for what does not alert.")
    mutes: list[MuteAnswer] = Field(description="Those in force that cover it.")
    history: list[HistoryAnswer] = Field(description="The first comes first.")
    links: RegressionLinks
