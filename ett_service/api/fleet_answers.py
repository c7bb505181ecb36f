"""Answers about the fleet: in all, over time, and job by job."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, ByCategory, Instant, Ratio, Seconds
from ett_service.api.group_answers import EXAMPLE_GROUP, GroupAnswer, WeightedSeconds, zeros
from ett_service.core.dimensions import Dimension
from ett_service.core.words import Category, JobState
from ett_service.fleet.scope import Exclusions

_STEP = {"start": "2026-03-02T00:00:00.000000Z", "end": "2026-03-09T00:00:00.000000Z"}


class AskedAnswer(Answer):
    """What was asked, as it was understood; windows are on full hours."""

    from_: Instant = Field(alias="from")
    to: Instant
    as_of: Instant = Field(description="When it was answered.")
    group_by: list[Dimension]
    where: dict[Dimension, list[str]] = Field(description="Empty text is the unknown.")
    exclusions: Exclusions


EXAMPLE_ASKED: dict[str, Any] = {
    "from": "2026-03-02T00:00:00.000000Z",
    "to": "2026-03-09T00:00:00.000000Z",
    "as_of": "2026-03-09T08:00:00.000000Z",
    "group_by": ["team"],
    "where": {"cluster": ["a"]},
    "exclusions": "left_out",
}


class FleetSummary(AskedAnswer):
    """A window in all, and by group."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                **EXAMPLE_ASKED,
                "total": {**EXAMPLE_GROUP, "group": {}},
                "groups": [EXAMPLE_GROUP],
                "group_count": 1,
                "other_cohorts": 0,
            }
        }
    )

    total: GroupAnswer
    groups: list[GroupAnswer] = Field(description="Empty unless something was grouped by.")
    group_count: int = Field(description="How many there are, beyond `limit` too.")
    other_cohorts: int = Field(
        description="Cohorts of this question whose time lies in `other` on any of the days: "
        "`where` and `group_by` cannot tell it any more."
    )


class StepAnswer(Answer):
    """One step of time."""

    start: Instant
    end: Instant
    partial: bool = Field(description="Whether the window cuts the step; only the rest counts.")


class PointAnswer(GroupAnswer, StepAnswer):
    """A group in one step."""


class FleetSeries(AskedAnswer):
    """A window step by step."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                **EXAMPLE_ASKED,
                "step": "1w",
                "points": [{**_STEP, "partial": False, **EXAMPLE_GROUP}],
            }
        }
    )

    step: Literal["1h", "1d", "1w"]
    points: list[PointAnswer] = Field(
        description="By time, then group. With groups those are left out that have no time."
    )


_TOP_JOB: dict[str, Any] = {
    "job": "llm-70b",
    "project": "research",
    "state": "finished",
    "name": "LLM 70B, second try",
    "team": "pretraining",
    "model": "llm-70b",
    "cluster": "a",
    "hardware": "H200",
    "gpus": 64,
    "attempts": 3,
    "failures": 2,
    "e2e_seconds": 7200.0,
    "weighted_seconds": 460800.0,
    "gpu_seconds": 456960.0,
    "lost_weighted_seconds": 57600.0,
    "weighted_categories": zeros(Category, launcher_init=57600.0, effective_training=403200.0),
    "ett_ratio": 0.875,
    "unsaved_training_seconds": 120.0,
    "cost": 317.33,
}


class TopJobAnswer(Answer):
    """What a job contributed to the window."""

    model_config = ConfigDict(json_schema_extra={"example": _TOP_JOB})

    job: str
    project: str
    state: JobState
    name: str | None
    team: str | None
    model: str | None
    cluster: str | None
    hardware: str | None
    gpus: int | None
    attempts: int = Field(description="That began in the window.")
    failures: int
    e2e_seconds: Seconds
    weighted_seconds: WeightedSeconds
    gpu_seconds: WeightedSeconds
    lost_weighted_seconds: WeightedSeconds
    weighted_categories: ByCategory
    ett_ratio: Ratio
    unsaved_training_seconds: Seconds
    cost: float | None = Field(description="Null while any of its time has no price.")


class TopJobs(AskedAnswer):
    """The jobs with most of something, the largest first."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {**EXAMPLE_ASKED, "by": "lost", "currency": "USD", "jobs": [_TOP_JOB]}
        }
    )

    by: str
    currency: str
    jobs: list[TopJobAnswer]
