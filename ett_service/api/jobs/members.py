"""Members of answers: waits, speed, distributions, failures, losses, production and cost."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasPath, Field

from ett_service.api.answers import Answer, Of, Seconds, WeightedSeconds
from ett_service.core.fleet.totals import ratio
from ett_service.core.words import FAILURES, Category, Cause, Origin, Owner, WaitPart

SecondsByOwner = dict[Owner, Seconds]


def _by_owner(ledger: Any) -> Mapping[WaitPart, Mapping[Owner, int]]:
    parts: dict[WaitPart, dict[Owner, int]] = {}
    for share in ledger.wait_shares:
        parts.setdefault(share.part, {})[share.owner] = share.us
    return {part: parts[part] for part in WaitPart if part in parts}


Waits = Annotated[
    dict[WaitPart, SecondsByOwner],
    Of(_by_owner),
    Field(
        description="By whose wait it was: `queue` sums to `queue_wait_seconds`, the others to "
        "their period. A part without any is absent."
    ),
]

AtReference = Annotated[
    Seconds | None,
    Field(
        validation_alias=AliasPath("speed", "known_at_reference_us"),
        description="The part of effective training that the measured steps take at the reference "
        "step time. Null where none is measured.",
    ),
]
Slowed = Annotated[
    Seconds | None,
    Field(
        validation_alias=AliasPath("speed", "known_slowed_us"),
        description="What they took beyond it. A part of effective training, too.",
    ),
]
Unmeasured = Annotated[
    Seconds,
    Field(
        validation_alias=AliasPath("speed", "unmeasured_us"),
        description="The rest of effective training: no steps measure it.",
    ),
]


class SpeedReferenceAnswer(Answer):
    """The best sustained step time of a run in one setting."""

    gpus: int | None
    tokens_per_step: int | None = Field(
        validation_alias="tokens_a_step", description="Rounded down to two digits."
    )
    step_seconds: float
    windows: int = Field(description="Windows of at least 50 steps in this setting.")


class DataWaitAnswer(Answer):
    """What training loops waited for data, over the attempts that report it."""

    seconds: Seconds = Field(validation_alias="us")
    loop_seconds: Seconds = Field(
        validation_alias="loop_us",
        description="Their effective, repeated and stalled time up to the last report.",
    )
    ratio: float | None = Field(description="`seconds` over `loop_seconds`.")


def ratio_at_reference(ledger: Any) -> float | None:
    """Return the part of a ledger's E2E at reference speed; None where nothing is measured."""
    at_reference_us = ledger.speed.known_at_reference_us
    return None if at_reference_us is None else ratio(at_reference_us, ledger.e2e_us)


def _mean_recovery(ledger: Any) -> int | None:
    lengths = [
        recovery.us
        for recovery in ledger.recoveries
        if recovery.resumed is not None and recovery.outcome in FAILURES
    ]
    return sum(lengths) // len(lengths) if lengths else None


TimeToRecover = Annotated[
    Seconds | None,
    Of(_mean_recovery),
    Field(description="Mean of the recoveries that resumed after a failure; null where none did."),
]

SecondsOrNone = Annotated[Seconds | None, Field(description="Seconds; null where count is 0.")]


class DistributionAnswer(Answer):
    """A distribution of durations. Quantiles are nearest ranks, at most 2 % off."""

    count: int = Field(validation_alias="n")
    mean: SecondsOrNone = Field(validation_alias="mean_us")
    p50: SecondsOrNone = Field(validation_alias="p50_us")
    p90: SecondsOrNone = Field(validation_alias="p90_us")
    p99: SecondsOrNone = Field(validation_alias="p99_us")


class FailureCountAnswer(Answer):
    """The failures of one origin and cause."""

    origin: Origin
    cause: Cause
    count: int
    unsaved_training_seconds: Seconds


class MtbfAnswer(Answer):
    """Running time (E2E without `scheduling` and `restart_wait`) between failures of a job.

    The interval is exact for failures that are independent and come at one rate (Poisson).
    """

    seconds: Seconds | None = Field(validation_alias="us", description="Null without a failure.")
    low: Seconds | None = Field(validation_alias="low_us", description="Null without running time.")
    high: Seconds | None = Field(
        validation_alias="high_us", description="Null without a failure: no upper bound."
    )
    confidence: float = Field(description="Of the interval from `low` to `high`.")
    failures: int


class LossAnswer(Answer):
    """The cost of preemptions: unsaved time and the recovery after it, times accelerators."""

    count: int = Field(validation_alias="attempts")
    lost_weighted_seconds: WeightedSeconds
    unsaved_weighted_seconds: WeightedSeconds
    recovery_weighted_seconds: WeightedSeconds
    without_accelerators: int = Field(
        validation_alias="unweighted",
        description="Those whose accelerators are unknown, and so is their loss.",
    )


class ProductivityAnswer(Answer):
    """What jobs produced in their effective training, over the jobs that report it.

    Rates are those of the mean job. Rates per accelerator, `mfu` and cost leave out jobs whose
    accelerators are unknown.
    """

    tokens: int
    samples: int
    tokens_per_second: float | None
    tokens_per_second_per_accelerator: float | None
    samples_per_second: float | None
    samples_per_second_per_accelerator: float | None
    mfu: float | None = Field(
        validation_alias="mfu_ratio",
        description="Reported operations (else 6 x parameters x tokens) over peak x effective "
        "time. Null, too, while a peak rate is unknown.",
    )
    useful_ratio: float | None = Field(description="ETT% x MFU: the useful share of the peak.")
    cost_per_million_tokens: float | None


class CostAnswer(Answer):
    """The cost of held accelerators, at the price of their hardware on the day."""

    currency: str = Field(validation_alias=AliasPath("economy", "currency"))
    total: float | None = Field(
        validation_alias=AliasPath("cost", "total"),
        description="Null, never 0, while any of the time has no price.",
    )
    by_category: dict[Category, float | None] = Field(
        validation_alias=AliasPath("cost", "by_category"), description="The same, by category."
    )
    unpriced_gpu_seconds: Seconds = Field(validation_alias=AliasPath("cost", "unpriced_gpu_us"))
