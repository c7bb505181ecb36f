"""Answers about how often to save."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ett_service.api.answers import Answer, Instant
from ett_service.api.fleet_answers import EXAMPLE_ASKED, AskedAnswer
from ett_service.api.rendering import seconds
from ett_service.core.dimensions import Dimension
from ett_service.core.planning.checkpoint_interval import FLAT, CurvePoint
from ett_service.fleet.advice import Advice, Counted, Estimate, GroupAdvice, IntervalGain, Verdict
from ett_service.fleet.uncertainty import CONFIDENCE

TrainingRatio = Annotated[float, Field(description="A share of the training time.")]

_ADVICE: dict[str, Any] = {
    "failures_counted": "all",
    "n": {"failures": 90, "infra_failures": 60, "saves": 720, "gaps": 700},
    "training_seconds": 2592000.0,
    "save_seconds": {"value": 15.0, "low": 14.6, "high": 15.4},
    "mtbf_seconds": {"value": 28800.0, "low": 23430.1, "high": 35815.7},
    "current": {
        "interval_seconds": 3600.0,
        "unsaved_ratio": 0.0625,
        "blocking_ratio": 0.004167,
        "wasted_ratio": 0.066667,
    },
    "best": {
        "interval_seconds": 929.516,
        "low": 838.0,
        "high": 1037.0,
        "unsaved_ratio": 0.016137,
        "blocking_ratio": 0.016137,
        "wasted_ratio": 0.032275,
    },
    "renewal_interval_seconds": 919.543,
    "flat_band": {"low": 678.394, "high": 1273.599, "within": 0.05},
    "verdict": "save_more_often",
    "gain": {"wasted_ratio": 0.034392, "gpu_hours": 1584.8, "gpu_hours_a_year": 9640.7},
    "curve": [
        {
            "interval_seconds": 929.516,
            "unsaved_ratio": 0.016137,
            "blocking_ratio": 0.016137,
            "wasted_ratio": 0.032275,
        }
    ],
    "confidence": CONFIDENCE,
    "reason": None,
    "assumption": "F*I/2 holds for intervals short against the time between failures (...)",
}


class BoundedAnswer(Answer):
    """A measured value and its bounds; each is null where nothing tells it."""

    value: float | None
    low: float | None
    high: float | None


class CountsAnswer(Answer):
    """How many observations the advice rests on."""

    failures: int
    infra_failures: int
    saves: int = Field(description="Stops of the loop for a save.")
    gaps: int = Field(description="Pairs of neighbouring checkpoints of one attempt.")


class WasteAnswer(Answer):
    """What an interval between checkpoints wastes."""

    interval_seconds: float
    unsaved_ratio: TrainingRatio = Field(description="Training that failures lose: F*I/2 over T.")
    blocking_ratio: TrainingRatio = Field(description="Saves that stop the loop: b/I.")
    wasted_ratio: TrainingRatio


class PresentAnswer(Answer):
    """The median interval between durable checkpoints; ratios are null without a measured save."""

    interval_seconds: float
    unsaved_ratio: TrainingRatio | None
    blocking_ratio: TrainingRatio | None
    wasted_ratio: TrainingRatio | None


class BestAnswer(Answer):
    """The interval that wastes least; without a failure only its lower bound is known."""

    interval_seconds: float | None
    low: float | None
    high: float | None
    unsaved_ratio: TrainingRatio | None
    blocking_ratio: TrainingRatio | None
    wasted_ratio: TrainingRatio | None


class BandAnswer(Answer):
    """Intervals, in seconds, that waste at most so much more than the best one."""

    low: float
    high: float
    within: float


class AdviceGainAnswer(Answer):
    """What the best interval would have gained over the present one, in the same time."""

    wasted_ratio: TrainingRatio
    gpu_hours: float | None = Field(
        description="In the window (of a job: in its life). Jobs of unknown accelerators are left "
        "out; null where there are no others."
    )
    gpu_hours_a_year: float | None = Field(description="At the same rate.")


class AdviceAnswer(Answer):
    """How often to save, what it rests on, and how sure it is."""

    model_config = ConfigDict(json_schema_extra={"example": _ADVICE})

    failures_counted: Counted
    n: CountsAnswer
    training_seconds: float
    save_seconds: BoundedAnswer = Field(description="How long the mean save stops the loop.")
    mtbf_seconds: BoundedAnswer = Field(description="Training time a counted failure.")
    current: PresentAnswer | None = Field(description="Null where no attempt saved twice.")
    best: BestAnswer
    renewal_interval_seconds: float | None = Field(
        description="The best interval where failures are not rare against it."
    )
    flat_band: BandAnswer | None
    verdict: Verdict | None = Field(
        description="`keep` inside the flat band or the bounds of the best interval."
    )
    gain: AdviceGainAnswer | None
    curve: list[WasteAnswer] = Field(
        description="From an eighth of the best interval to eight times it, four points a doubling."
    )
    confidence: float = Field(description="Of all bounds.")
    reason: str | None = Field(description="Why there is no best interval; null where there is.")
    assumption: str


class JobAdviceAnswer(AdviceAnswer):
    """Advice for one job, from all of its life."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"job": "llm-70b", "as_of": "2026-03-01T10:00:00.000000Z", **_ADVICE}
        }
    )

    job: str
    as_of: Instant


class GroupAdviceAnswer(AdviceAnswer):
    """Advice for a group of cohorts."""

    group: dict[Dimension, str | None] = Field(description="The cohorts; null where unknown.")
    other: bool = Field(description="The cohorts beyond the cap, whose gaps are not told apart.")


class FleetAdviceAnswer(AskedAnswer):
    """Advice for all that was asked about, and by group."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                **EXAMPLE_ASKED,
                "total": _ADVICE,
                "groups": [{"group": {"team": "pretraining"}, "other": False, **_ADVICE}],
            }
        }
    )

    total: AdviceAnswer
    groups: list[GroupAdviceAnswer] = Field(
        description="Most GPU-hours to gain first; empty unless something was grouped by."
    )


def advice_members(advice: Advice) -> dict[str, Any]:
    """Return the members of an ``AdviceAnswer``."""
    measured = advice.measured
    return {
        "failures_counted": advice.counted,
        "n": CountsAnswer(
            failures=measured.failures,
            infra_failures=measured.infra_failures,
            saves=measured.saves.n,
            gaps=len(measured.gaps_us),
        ),
        "training_seconds": seconds(measured.training_us),
        "save_seconds": _estimate(advice.save),
        "mtbf_seconds": _estimate(advice.mtbf),
        "current": _present(advice),
        "best": _best(advice),
        "renewal_interval_seconds": advice.renewal_interval,
        "flat_band": _band(advice),
        "verdict": advice.verdict,
        "gain": None if advice.gain is None else _gain(advice.gain),
        "curve": [_waste(point) for point in advice.curve],
        "confidence": CONFIDENCE,
        "reason": advice.reason,
        "assumption": advice.assumption,
    }


def group_advice(group: GroupAdvice) -> GroupAdviceAnswer:
    """Answer the advice for a group."""
    members = advice_members(group.advice)
    members["group"] = {name: value or None for name, value in group.labels.items()}
    return GroupAdviceAnswer(other=group.other, **members)


def _estimate(estimate: Estimate) -> BoundedAnswer:
    return BoundedAnswer(value=estimate.value, low=estimate.low, high=estimate.high)


def _waste(point: CurvePoint) -> WasteAnswer:
    return WasteAnswer(**point._asdict(), wasted_ratio=point.wasted_ratio)


def _ratios(point: CurvePoint | None) -> dict[str, float | None]:
    return {
        "unsaved_ratio": point and point.unsaved_ratio,
        "blocking_ratio": point and point.blocking_ratio,
        "wasted_ratio": point and point.wasted_ratio,
    }


def _present(advice: Advice) -> PresentAnswer | None:
    interval = advice.measured.interval_seconds
    if interval is None:
        return None
    return PresentAnswer(interval_seconds=interval, **_ratios(advice.current))


def _best(advice: Advice) -> BestAnswer:
    best = advice.best
    return BestAnswer(
        interval_seconds=best.value, low=best.low, high=best.high, **_ratios(advice.least)
    )


def _band(advice: Advice) -> BandAnswer | None:
    if advice.flat_band is None:
        return None
    low, high = advice.flat_band
    return BandAnswer(low=low, high=high, within=FLAT)


def _gain(gain: IntervalGain) -> AdviceGainAnswer:
    return AdviceGainAnswer(
        wasted_ratio=gain.wasted_ratio,
        gpu_hours=gain.gpu_hours,
        gpu_hours_a_year=gain.gpu_hours_a_year,
    )
