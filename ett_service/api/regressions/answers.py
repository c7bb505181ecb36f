"""Answers about regressions: what was found, where it stands, and what is muted."""

from typing import Any

from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, Instant, IntervalAnswer
from ett_service.core.regressions.finding import Metric, State, Triage, Unit, Verdict

_SUBJECT: dict[str, Any] = {
    "metric": "phase_seconds",
    "phase": "pt2_compile",
    "stage": None,
    "cause": None,
    "cohort": {"cluster": "eu-1", "model": "llm-70b"},
}
_SIDE: dict[str, Any] = {
    "n": 140,
    "days": 28,
    "median": 486.0,
    "p90": 702.0,
    "from": "2026-10-05T00:00:00.000000Z",
    "to": "2026-11-02T00:00:00.000000Z",
}
EXAMPLE_ROW: dict[str, Any] = {
    "id": "01JCXK7V4W3M",
    "project": "research",
    "fingerprint": "6f1f0b2f3c1d9a77",
    **_SUBJECT,
    "verdict": "regression",
    "state": "firing",
    "severity": "high",
    "unit": "seconds",
    "ratio": 1.65,
    "interval": {"low": 1.48, "high": 1.84},
    "before": _SIDE,
    "after": {
        **_SIDE,
        "n": 68,
        "days": 14,
        "median": 804.0,
        "p90": 1010.0,
        "from": "2026-11-02T00:00:00.000000Z",
        "to": "2026-11-16T00:00:00.000000Z",
    },
    "impact": {
        "gpu_hours_per_week": 212.0,
        "ett_points": -0.6,
        "cost_per_week": 742.0,
        "currency": "USD",
    },
    "onset_at": "2026-11-05T22:00:00.000000Z",
    "pending_at": "2026-11-08T00:00:00.000000Z",
    "firing_at": "2026-11-09T00:00:00.000000Z",
    "resolved_at": None,
    "last_run_at": "2026-11-16T00:00:00.000000Z",
    "reopened": 0,
    "acknowledged_at": "2026-11-09T07:30:00.000000Z",
    "acknowledged_by": "ett_4Zk0Xw7b",
    "acknowledged_by_name": "on call",
    "triage": "real",
    "triage_at": "2026-11-09T08:10:00.000000Z",
    "triage_by": "ett_4Zk0Xw7b",
    "triage_by_name": "on call",
    "muted_until": None,
}
EXAMPLE_MUTE: dict[str, Any] = {
    "id": "0f8a2d9c41e7",
    "project": "research",
    "cohort": {"cluster": "eu-1"},
    "phase": "pt2_compile",
    "from": "2026-11-09T08:12:00.000000Z",
    "until": "2026-11-12T00:00:00.000000Z",
    "why": "The compile cache moves until Wednesday.",
    "made_by": "ett_4Zk0Xw7b",
    "made_by_name": "on call",
    "made_at": "2026-11-09T08:12:00.000000Z",
    "taken_back_by": None,
    "taken_back_by_name": None,
    "taken_back_at": None,
}


class ObservedAnswer(Answer):
    """Values before or after the onset, in the regression's `unit`."""

    n: int = Field(description="How many; of a rate how many events, of ETT% how many days.")
    days: int = Field(description="Days with any.")
    median: float | None = Field(description="Of a rate or a ratio it is that itself.")
    p90: float | None
    from_at: Instant = Field(alias="from")
    to_at: Instant = Field(alias="to")


class ImpactAnswer(Answer):
    """What it costs; what an improvement saves is negative."""

    gpu_hours_per_week: float | None = Field(description="Null while accelerators are unknown.")
    ett_points: float | None = Field(description="Of the cohort's ETT%; negative is worse.")
    cost_per_week: float | None = Field(description="Null without a price.")
    currency: str | None


class RegressionRow(Answer):
    """A finding in one line. Only those whose verdict is `regression` alert."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE_ROW})

    id: str
    project: str
    fingerprint: str = Field(description="Of what is watched; it stays when it comes back.")
    metric: Metric
    phase: str | None
    stage: str | None
    cause: str | None = Field(description="Of failures; null for all of them.")
    cohort: dict[str, str] = Field(description="Empty for all of the project.")
    verdict: Verdict
    state: State
    severity: str
    unit: Unit = Field(description="Of the values before and after.")
    ratio: float | None = Field(description="After over before; null where before is 0.")
    interval: IntervalAnswer | None = Field(description="95 %, of the ratio.")
    before: ObservedAnswer
    after: ObservedAnswer
    impact: ImpactAnswer
    onset_at: Instant = Field(description="Since when, by estimate.")
    pending_at: Instant = Field(description="When it was first found.")
    firing_at: Instant | None
    resolved_at: Instant | None
    last_run_at: Instant = Field(description="The last search that could tell.")
    reopened: int = Field(description="How often it came back within 72 hours.")
    acknowledged_at: Instant | None
    acknowledged_by: str | None = Field(description="Prefix of a key.")
    acknowledged_by_name: str | None
    triage: Triage | None = Field(description="What somebody said it is.")
    triage_at: Instant | None
    triage_by: str | None
    triage_by_name: str | None
    muted_until: Instant | None = Field(description="Null where no mute is in force.")


class MuteAnswer(Answer):
    """Of what nobody is told, and until when."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE_MUTE})

    id: str
    project: str
    cohort: dict[str, str] = Field(description="Those whose dimensions have these values.")
    phase: str | None = Field(description="Null for all phases.")
    from_at: Instant = Field(alias="from")
    until: Instant
    why: str
    made_by: str = Field(description="Prefix of a key.")
    made_by_name: str | None
    made_at: Instant
    taken_back_by: str | None
    taken_back_by_name: str | None
    taken_back_at: Instant | None


class RegressionPage(Answer):
    """A page of findings."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"regressions": [EXAMPLE_ROW], "next_cursor": None}}
    )

    regressions: list[RegressionRow]
    next_cursor: str | None = Field(description="Sent as `cursor` it gives the next page.")


class MutePage(Answer):
    """A page of mutes, those made last first."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"mutes": [EXAMPLE_MUTE], "next_cursor": None}}
    )

    mutes: list[MuteAnswer]
    next_cursor: str | None = Field(description="Sent as `cursor` it gives the next page.")
