"""The answer to a question that compares two sets of jobs."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, Instant
from ett_service.core.regressions.finding import Unit
from ett_service.detection.comparison.compare import Difference

CAUTION = (
    "A difference is associated with the sets, not shown to be caused by what was chosen: they may "
    "differ in other things, too. Attempts count as independent of each other."
)

_LEVEL: dict[str, Any] = {"n": 10, "value": 105.8}
_COMPARED: dict[str, Any] = {
    "figure": "launcher_init",
    "unit": "seconds",
    "base": _LEVEL,
    "with": {"n": 10, "value": 191.3},
    "ratio": 1.80,
    "ratio_interval": {"low": 1.77, "high": 1.82},
    "worse_by": 1.80,
    "p": 1.1e-5,
    "p_corrected": 6.5e-5,
    "smallest_ratio": 1.02,
    "outcome": "worse",
}
_SET: dict[str, Any] = {
    "where": {"code_version": ["4.1"]},
    "jobs": ["nightly-*"],
    "from": None,
    "to": None,
    "job_count": 10,
    "attempts": 10,
    "gpu_hours": 131.5,
}
_EXAMPLE: dict[str, Any] = {
    "base": _SET,
    "with": {**_SET, "where": {"code_version": ["4.2"]}},
    "compared": [_COMPARED],
    "start_shares": {"launcher_init": 0.92, "scheduling": 0.08},
    "unlike": [{"dimension": "hardware", "base": "H100", "with": "B200", "apart": 1.0}],
    "confidence": 0.95,
    "note": CAUTION,
}

Factor = Annotated[float | None, Field(description="A factor; null where it has no bound.")]


class SetAnswer(Answer):
    """One of the sets, as it was asked for, and how much there is of it."""

    where: dict[str, list[str]]
    jobs: list[str] = Field(description="Patterns of names; any will do.")
    from_at: Instant | None = Field(alias="from")
    to: Instant | None
    job_count: int
    attempts: int
    gpu_hours: float = Field(description="Of attempts whose accelerators are known.")


class LevelAnswer(Answer):
    """A figure in one of the sets."""

    n: int = Field(
        description="Attempts; of `time_to_start` and `ett_ratio` jobs, of the failure rate "
        "failures."
    )
    value: float | None = Field(description="The median, or the rate; null where there is none.")


class BoundsAnswer(Answer):
    """Where a factor lies with the probability `confidence`."""

    low: Factor
    high: Factor


class ComparedAnswer(Answer):
    """A figure in both sets."""

    figure: str = Field(
        description="`time_to_start` of jobs, `attempt_start` of attempts, a phase, a stage as "
        "`launcher_init/pre_train`, `ett_ratio`, `failures_per_gpu_hour`."
    )
    unit: Unit
    base: LevelAnswer
    with_: LevelAnswer = Field(alias="with")
    ratio: Factor = Field(description="The second over the first (Hodges and Lehmann).")
    ratio_interval: BoundsAnswer | None
    worse_by: Factor = Field(description="The same, turned over where more is better.")
    p: float | None = Field(description="Of no difference (Mann and Whitney), two-sided.")
    p_corrected: float | None = Field(description="For the number of figures, stages apart (Holm).")
    smallest_ratio: Factor = Field(
        description="The smallest factor that would show in 8 of 10 cases with so many values of "
        "this spread; null where none would."
    )
    outcome: Difference


class UnlikeAnswer(Answer):
    """A dimension in which the sets differ, and what most attempts of each have there."""

    dimension: str
    base: str = Field(description="Empty where unknown.")
    with_: str = Field(alias="with")
    apart: float = Field(description="Part of the attempts that would have to have another value.")


class ComparisonAnswer(Answer):
    """Two sets side by side."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    base: SetAnswer
    with_: SetAnswer = Field(alias="with")
    compared: list[ComparedAnswer]
    start_shares: dict[str, float] = Field(
        description="Part of the change of the mean `attempt_start` by phase; sums to 1."
    )
    unlike: list[UnlikeAnswer]
    confidence: float
    note: str
