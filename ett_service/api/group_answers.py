"""What is answered about a group of cohorts; it means the same wherever a group is answered."""

from typing import Annotated, Any, Literal

from pydantic import Field

from ett_service.api.answers import Answer, ByCategory, ProductivityAnswer, Ratio, Seconds
from ett_service.core.dimensions import Dimension
from ett_service.core.words import Category, Cause, Origin, Period

TimedPhase = Literal["scheduling", "hardware_setup", "launcher_init", "pt2_compile", "shutdown"]

MaybeSeconds = Annotated[float | None, Field(description="Seconds; null where count is 0.")]
WeightedSeconds = Annotated[
    float, Field(description="Seconds times accelerators; none where those are unknown.")
]


class DistributionAnswer(Answer):
    """How long something took; quantiles are nearest ranks, at most 2 % off."""

    count: int
    mean: MaybeSeconds
    p50: MaybeSeconds
    p90: MaybeSeconds
    p99: MaybeSeconds


class FailureCountAnswer(Answer):
    """Failures of one origin and cause."""

    origin: Origin
    cause: Cause
    count: int
    unsaved_training_seconds: Seconds


class FailuresAnswer(Answer):
    """Attempts that ended `failed`, `preempted` or `lost` in the window."""

    total: int
    infra: int = Field(description="Those of origin `infra` or `preemption`.")
    per_1000_gpu_hours: float | None = Field(description="Null without held accelerators.")
    per_1000_node_days: float | None = Field(
        description="A node is taken to have `accelerators_per_node`; null as above."
    )
    accelerators_per_node: int = Field(description="From the settings: an assumption.")
    by: list[FailureCountAnswer] | None = Field(
        description="Most frequent first; null without distributions."
    )


class MtbfAnswer(Answer):
    """Running time (E2E without `scheduling` and `restart_wait`) between failures of a job.

    The interval is exact for failures that come independently at one rate (Poisson).
    """

    seconds: float | None = Field(description="Null without a failure.")
    low: float | None = Field(description="Null without running time.")
    high: float | None = Field(description="Null without a failure: there is no upper bound.")
    confidence: float = Field(description="Of the interval from `low` to `high`.")
    failures: int


class LossAnswer(Answer):
    """What preemptions cost: unsaved time and the recovery that followed, times accelerators."""

    count: int
    lost_weighted_seconds: WeightedSeconds
    unsaved_weighted_seconds: WeightedSeconds
    recovery_weighted_seconds: WeightedSeconds
    without_accelerators: int = Field(
        description="Those whose accelerators are unknown, and so what they lost."
    )


class PreemptionAnswer(Answer):
    """Attempts that had to make room, by the job in whose favour (`preempted_by`)."""

    preempted: int
    attempts: int
    ratio: float | None = Field(description="Preempted over begun attempts; null without any.")
    first_order: LossAnswer = Field(description="For a job that had work of its own to do.")
    second_order: LossAnswer = Field(
        description="For a job that came back after a failure: of its attempts that had begun by "
        "then the last had ended `failed` or `lost`, or came after one that did."
    )
    unknown: LossAnswer = Field(description="Nobody said for which job, or it is not known.")


class CostAnswer(Answer):
    """What held accelerators cost, at the price of their hardware on the day."""

    currency: str
    total: float | None = Field(description="Null, never 0, while any of the time has no price.")
    by_category: dict[Category, float | None] = Field(description="Likewise, each.")
    unpriced_gpu_seconds: Seconds


class TargetAnswer(Answer):
    """What the settings aim at here."""

    ett_ratio: Ratio
    distance: float | None = Field(
        description="`ett_ratio` of the group minus the target's; null without weighted time."
    )


class GroupAnswer(Answer):
    """Cohorts taken together: sums over their time in the window, each divided once."""

    group: dict[Dimension, str | None] = Field(
        description="What was grouped by; null where unknown."
    )
    other: bool = Field(
        description="The cohorts beyond the cap of a day, whose dimensions are not kept."
    )
    jobs: int = Field(description="Jobs that lived in the window.")
    attempts: int = Field(description="Attempts that began in it.")
    e2e_seconds: Seconds
    weighted_seconds: WeightedSeconds
    gpu_seconds: WeightedSeconds = Field(
        description="The weighted seconds in which accelerators were held: what is paid for."
    )
    categories: ByCategory = Field(description="They sum to `e2e_seconds`.")
    weighted_categories: ByCategory = Field(description="They sum to `weighted_seconds`.")
    gpu_categories: ByCategory = Field(description="They sum to `gpu_seconds`.")
    periods: dict[Period, float] = Field(description="They sum to `e2e_seconds`.")
    ett_ratio: Ratio = Field(
        description="The headline: effective over all seconds, weighted by accelerators."
    )
    ett_ratio_wall: Ratio = Field(description="The same by wall time: every job's second alike.")
    ett_ratio_median_job: float | None = Field(
        description="Median of the jobs whose time ends in the window, each over its whole life, "
        "to 0.0005; null without any, and without distributions."
    )
    wasted_ratio: Ratio = Field(description="WTT%: wasted part of the period `training`.")
    queue_wait_seconds: Seconds = Field(description="Of the jobs that began; not part of E2E.")
    unsaved_training_seconds: Seconds
    lost_weighted_seconds: WeightedSeconds = Field(
        description="Weighted seconds that were not effective training."
    )
    failures: FailuresAnswer
    mtbf: MtbfAnswer
    infra_mtbf: MtbfAnswer
    preemption: PreemptionAnswer
    time_to_start: DistributionAnswer | None
    time_to_recover: DistributionAnswer | None = Field(
        description="Of recoveries after a failure that reached a loop."
    )
    checkpoint_blocking: DistributionAnswer | None = Field(description="Of each stop for a save.")
    queue_wait: DistributionAnswer | None
    phases: dict[TimedPhase, DistributionAnswer] | None = Field(
        description="What an attempt spent on each, once it had left it."
    )
    cost: CostAnswer
    target: TargetAnswer | None = Field(description="Null where the settings name none.")
    productivity: ProductivityAnswer
    unweighted_seconds: Seconds = Field(
        description="Part of `e2e_seconds` whose accelerators are unknown; in no weighted number."
    )
    jobs_without_accelerators: int = Field(
        description="Jobs whose time ends in the window and whose accelerators are unknown."
    )
    jobs_left_out: int = Field(description="Jobs in more than 20,000 hours, which are not counted.")


def zeros(words: type[Category] | type[Period], **known: float) -> dict[str, float]:
    return {**dict.fromkeys(map(str, words), 0.0), **known}


_DISTRIBUTION = {"count": 12, "mean": 500.0, "p50": 415.2, "p90": 902.4, "p99": 1316.8}
_LOSS = {
    "count": 1,
    "lost_weighted_seconds": 51200.0,
    "unsaved_weighted_seconds": 38400.0,
    "recovery_weighted_seconds": 12800.0,
    "without_accelerators": 0,
}
_NO_LOSS: dict[str, Any] = {name: type(value)() for name, value in _LOSS.items()}
_MTBF = {
    "seconds": 28800.0,
    "low": 9884.2,
    "high": 105705.0,
    "confidence": 0.95,
    "failures": 4,
}
EXAMPLE_GROUP: dict[str, Any] = {
    "group": {"team": "pretraining"},
    "other": False,
    "jobs": 12,
    "attempts": 16,
    "e2e_seconds": 129600.0,
    "weighted_seconds": 8294400.0,
    "gpu_seconds": 8236800.0,
    "categories": zeros(Category, scheduling=900.0, effective_training=128700.0),
    "weighted_categories": zeros(Category, scheduling=57600.0, effective_training=8236800.0),
    "gpu_categories": zeros(Category, effective_training=8236800.0),
    "periods": zeros(Period, scheduling=900.0, training=128700.0),
    "ett_ratio": 0.993056,
    "ett_ratio_wall": 0.993056,
    "ett_ratio_median_job": 0.9915,
    "wasted_ratio": 0.0,
    "queue_wait_seconds": 3600.0,
    "unsaved_training_seconds": 1200.0,
    "lost_weighted_seconds": 57600.0,
    "failures": {
        "total": 4,
        "infra": 3,
        "per_1000_gpu_hours": 1.748,
        "per_1000_node_days": 335.664,
        "accelerators_per_node": 8,
        "by": [
            {
                "origin": "infra",
                "cause": "gpu_memory",
                "count": 4,
                "unsaved_training_seconds": 1200.0,
            }
        ],
    },
    "mtbf": _MTBF,
    "infra_mtbf": {**_MTBF, "seconds": 38400.0, "low": 13139.7, "high": 186208.0, "failures": 3},
    "preemption": {
        "preempted": 1,
        "attempts": 16,
        "ratio": 0.0625,
        "first_order": _LOSS,
        "second_order": _NO_LOSS,
        "unknown": _NO_LOSS,
    },
    "time_to_start": _DISTRIBUTION,
    "time_to_recover": _DISTRIBUTION,
    "checkpoint_blocking": _DISTRIBUTION,
    "queue_wait": _DISTRIBUTION,
    "phases": {"launcher_init": _DISTRIBUTION},
    "cost": {
        "currency": "USD",
        "total": 5720.0,
        "by_category": zeros(Category, effective_training=5720.0),
        "unpriced_gpu_seconds": 0.0,
    },
    "target": {"ett_ratio": 0.9, "distance": 0.093056},
    "productivity": {
        "tokens": 3_000_000_000,
        "samples": 0,
        "tokens_per_second": 23310.0,
        "tokens_per_second_per_accelerator": 364.2,
        "samples_per_second": None,
        "samples_per_second_per_accelerator": None,
        "mfu": 0.41,
        "useful_ratio": 0.40715,
        "cost_per_million_tokens": 1.9067,
    },
    "unweighted_seconds": 0.0,
    "jobs_without_accelerators": 0,
    "jobs_left_out": 0,
}
