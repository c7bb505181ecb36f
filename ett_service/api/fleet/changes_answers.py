"""Answers of the change ledger."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, Instant, IntervalAnswer, Ratio, Seconds
from ett_service.core.events import MarkerKind
from ett_service.fleet.scope import Exclusions
from ett_service.fleet.uncertainty import CONFIDENCE
from ett_service.storage.fleet import occurrences

CAUTION = (
    "A difference is associated with a marker, not shown to be caused by it: other things change "
    "at the same time."
)

_MARKER: dict[str, Any] = {
    "id": "5f0c2c1e9d4b4b3c8a6d",
    "project": "research",
    "at": "2026-03-08T08:00:00.000000Z",
    "end": None,
    "kind": "deploy",
    "title": "Compile cache",
    "labels": {"cluster": "a"},
}
_BEFORE: dict[str, Any] = {"n": 61, "jobs": 61, "mean_seconds": 1480.0, "median_seconds": 1422.5}
_AFTER: dict[str, Any] = {"n": 58, "jobs": 58, "mean_seconds": 905.0, "median_seconds": 870.0}
_SPAN: dict[str, Any] = {
    "from": "2026-02-22T08:00:00.000000Z",
    "to": "2026-03-08T08:00:00.000000Z",
}
_EXAMPLE: dict[str, Any] = {
    "from": "2026-03-02T00:00:00.000000Z",
    "to": "2026-03-09T00:00:00.000000Z",
    "where": {},
    "exclusions": "left_out",
    "confidence": CONFIDENCE,
    "changes": [
        {
            "marker": _MARKER,
            "before": _SPAN,
            "after": {**_SPAN, "from": _SPAN["to"], "to": "2026-03-22T08:00:00.000000Z"},
            "effects": [
                {
                    "measure": "time_to_start",
                    "before": _BEFORE,
                    "after": _AFTER,
                    "difference_seconds": -575.0,
                    "difference_interval": {"low": -641.2, "high": -507.9},
                    "median_difference_seconds": -552.5,
                    "median_difference_interval": {"low": -630.0, "high": -488.1},
                }
            ],
            "ett": {
                "before": 0.871,
                "after": 0.894,
                "points": 2.3,
                "points_interval": {"low": 0.8, "high": 3.9},
            },
        }
    ],
    "more_changes": False,
    "waterfall": {
        "measure": "time_to_start",
        "steps": [
            {
                "marker": None,
                "from": "2026-03-02T00:00:00.000000Z",
                "to": "2026-03-08T08:00:00.000000Z",
                "n": 26,
                "mean_seconds": 1480.0,
                "step_seconds": 0.0,
            },
            {
                "marker": _MARKER,
                "from": "2026-03-08T08:00:00.000000Z",
                "to": "2026-03-09T00:00:00.000000Z",
                "n": 4,
                "mean_seconds": 905.0,
                "step_seconds": -575.0,
            },
        ],
        "change_seconds": -575.0,
    },
    "note": CAUTION,
}


class MarkedAnswer(Answer):
    """The marker."""

    id: str
    project: str
    at: Instant
    end: Instant | None
    kind: MarkerKind
    title: str
    labels: dict[str, str]


class SpanAnswer(Answer):
    """A stretch of time."""

    from_at: Instant = Field(alias="from")
    to: Instant


class MeasuredAnswer(Answer):
    """What began on one side of a marker."""

    n: int
    jobs: int = Field(description="That they are of.")
    mean_seconds: float | None = Field(description="Null where n is 0.")
    median_seconds: float | None = Field(description="Null where n is 0.")


class EffectAnswer(Answer):
    """One duration on both sides."""

    measure: occurrences.Kind = Field(
        description="`time_to_start` of jobs, `time_to_recover` of recoveries after failures, "
        "`pt2_compile` of attempts that compile and reach a loop, `checkpoint_blocking` of "
        "attempts, as the mean of their stops for a save."
    )
    before: MeasuredAnswer
    after: MeasuredAnswer
    difference_seconds: float | None = Field(
        description="Of the means, after minus before; null where a side has none."
    )
    difference_interval: IntervalAnswer | None = Field(
        description="Null where a side has fewer than two jobs."
    )
    median_difference_seconds: float | None = Field(
        description="Of the medians: a few long ones move it less."
    )
    median_difference_interval: IntervalAnswer | None = Field(
        description="Null, too, with more than 100,000 durations on a side."
    )


class EttEffectAnswer(Answer):
    """ETT% on both sides, weighted by accelerators, in full hours."""

    before: Ratio
    after: Ratio
    points: float | None = Field(description="Percentage points; null where a side has no time.")
    points_interval: IntervalAnswer | None


class ChangeAnswer(Answer):
    """A marker, and what is associated with it."""

    marker: MarkedAnswer
    before: SpanAnswer
    after: SpanAnswer
    effects: list[EffectAnswer]
    ett: EttEffectAnswer


class StepAnswer(Answer):
    """From one marker to the next."""

    marker: MarkedAnswer | None = Field(description="Null for what lies before the first.")
    from_at: Instant = Field(alias="from")
    to: Instant
    n: int
    mean_seconds: float | None = Field(description="Null where no job began.")
    step_seconds: Seconds = Field(description="By how much it moved here; 0 where no job began.")


class WaterfallAnswer(Answer):
    """The mean time to start from marker to marker; the steps sum to its whole change."""

    measure: Literal["time_to_start"]
    steps: list[StepAnswer]
    change_seconds: Seconds


class ChangesAnswer(Answer):
    """The change ledger of a window."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    from_at: Instant = Field(alias="from")
    to: Instant
    where: dict[str, list[str]]
    exclusions: Exclusions
    confidence: float = Field(description="Of the intervals: a bootstrap over jobs.")
    changes: list[ChangeAnswer] = Field(description="The latest marker first.")
    more_changes: bool = Field(description="Whether earlier ones were left out.")
    waterfall: WaterfallAnswer
    note: str
