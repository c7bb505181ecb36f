"""What a planned run will cost: accelerator hours and money, on demand and on spot machines.

The hours follow from the operations that the model needs, the rate at which accelerators do them
(peak rate times MFU), and the share of their time in which they train (ETT%). A spot machine is
cheaper and is taken away now and then; what each interruption costs is the renewal form of
:mod:`ett_service.core.planning.checkpoint_interval`. All of the time counts as paid.
"""

import math
from dataclasses import dataclass

from ett_service.core.errors import (
    OutOfDomain,
    refuse_negative,
    refuse_no_share,
    refuse_not_positive,
)
from ett_service.core.ledger.attempts.attempt_events import TERA
from ett_service.core.planning.checkpoint_interval import best_interval, expected_ratio

_HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Run:
    """A run to be planned.

    Raises ValueError if a share is not above 0 and at most 1, or another number not positive.
    """

    flops: float  #: operations that the model needs in all
    peak_teraflops: float  #: of one accelerator, a second
    mfu_ratio: float  #: while it trains
    accelerators: int
    ett_ratio: float = 1.0  #: the share of their time in which they train

    def __post_init__(self) -> None:
        refuse_not_positive(
            flops=self.flops, peak_teraflops=self.peak_teraflops, accelerators=self.accelerators
        )
        refuse_no_share(mfu_ratio=self.mfu_ratio, ett_ratio=self.ett_ratio)
        # Of two numbers that are positive the product can be 0.
        refuse_not_positive(mfu_ratio=self.peak_teraflops * TERA * self.mfu_ratio)

    @property
    def training_gpu_hours(self) -> float:
        """Accelerator hours in which it trains: ``flops / (peak * MFU) / 3600``."""
        return self.flops / (self.peak_teraflops * TERA * self.mfu_ratio) / _HOUR_SECONDS

    @property
    def gpu_hours(self) -> float:
        """Accelerator hours in all, those lost to anything but training included."""
        return self.training_gpu_hours / self.ett_ratio

    @property
    def wall_hours(self) -> float:
        """How long it takes."""
        return self.gpu_hours / self.accelerators


@dataclass(frozen=True, slots=True)
class Spot:
    """Cheaper machines that are taken away; durations are seconds.

    Raises ValueError if the discount is not from 0 to 1, the time between interruptions or the
    interval not positive, or another number negative.
    """

    discount_ratio: float  #: off the price on demand
    interval_seconds: float | None = None  #: between checkpoints; None takes the best
    mtbi_seconds: float = math.inf  #: mean time between interruptions of the whole run
    restart_seconds: float = 0.0  #: from an interruption until it trains again
    save_seconds: float = 0.0  #: that each save blocks, beyond what ETT% already holds

    def __post_init__(self) -> None:
        refuse_negative(
            discount_ratio=self.discount_ratio,
            restart_seconds=self.restart_seconds,
            save_seconds=self.save_seconds,
        )
        refuse_not_positive(mtbi_seconds=self.mtbi_seconds)
        if self.interval_seconds is not None:
            refuse_not_positive(interval_seconds=self.interval_seconds)
        if self.discount_ratio > 1:
            raise OutOfDomain("discount_ratio", self.discount_ratio, "not be above 1")

    @property
    def interval(self) -> float:
        """Seconds between checkpoints; infinite where one should never save."""
        return self._interval_at(1 / self.mtbi_seconds)

    @property
    def kept_ratio(self) -> float:
        """The share of the time that interruptions leave."""
        return self.kept_ratio_at(1 / self.mtbi_seconds)

    def kept_ratio_at(self, rate: float) -> float:
        """The same for so many interruptions a second."""
        interval = self._interval_at(rate)
        return expected_ratio(rate, interval, self.save_seconds, self.restart_seconds)

    def _interval_at(self, rate: float) -> float:
        if self.interval_seconds is not None:
            return self.interval_seconds
        return best_interval(rate, self.save_seconds)

    @property
    def break_even_rate(self) -> float:
        """Interruptions a second at which spot costs what demand does.

        0 where even a run that is never interrupted costs as much, infinite where interruptions
        or the machines are free.
        """
        worth = 1 - self.discount_ratio
        if worth == 0:
            return math.inf
        if self.kept_ratio_at(0.0) <= worth:
            return 0.0
        low, high = 0.0, 1 / _HOUR_SECONDS
        while self.kept_ratio_at(high) > worth:
            low, high = high, 2 * high
            if math.isinf(high):
                return high
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if self.kept_ratio_at(middle) > worth else (low, middle)
        return low


def on_demand_cost(run: Run, price_an_hour: float) -> float:
    """Cost of *run* at so much an accelerator hour. Raises ValueError for a negative price."""
    refuse_negative(price_an_hour=price_an_hour)
    return run.gpu_hours * price_an_hour


def spot_gpu_hours(run: Run, spot: Spot) -> float:
    """Accelerator hours of *run* on *spot* machines; infinite where it never gets through."""
    kept_ratio = spot.kept_ratio
    return run.gpu_hours / kept_ratio if kept_ratio else math.inf


def spot_cost(run: Run, spot: Spot, price_an_hour: float) -> float:
    """Cost of *run* on *spot* machines, at the price on demand less the discount.

    Raises ValueError for a negative price.
    """
    refuse_negative(price_an_hour=price_an_hour)
    price = price_an_hour * (1 - spot.discount_ratio)
    return spot_gpu_hours(run, spot) * price if price else 0.0
