"""What accelerators cost, what they could do at most, and the targets of an operator."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from ett_service.core.fleet.totals import Totals
from ett_service.core.intervals import HOUR_US
from ett_service.core.words import Category


class PeakRate(NamedTuple):
    """The most of one kind of accelerator in one precision."""

    hardware: str
    precision: str
    teraflops: float  #: a second


_SHEETS: dict[str, dict[str, float]] = {
    "V100": {"fp16": 125, "fp32": 15.7},
    "A100": {"bf16": 312, "fp16": 312, "tf32": 156, "fp32": 19.5},
    "H100": {"fp8": 1979, "bf16": 989.5, "fp16": 989.5, "tf32": 494.7, "fp32": 67},
    "H100-PCIe": {"fp8": 1513, "bf16": 756.5, "fp16": 756.5, "tf32": 378, "fp32": 51},
    "H200": {"fp8": 1979, "bf16": 989.5, "fp16": 989.5, "tf32": 494.7, "fp32": 67},
    "B200": {"fp8": 4500, "bf16": 2250, "fp16": 2250, "tf32": 1125, "fp32": 75},
    "GB200": {"fp8": 5000, "bf16": 2500, "fp16": 2500, "tf32": 1250, "fp32": 80},
    "L40S": {"fp8": 733, "bf16": 362, "fp16": 362, "tf32": 183, "fp32": 91.6},
    "MI250X": {"bf16": 383, "fp16": 383, "fp32": 47.9},
    "MI300X": {"fp8": 2614.9, "bf16": 1307.4, "fp16": 1307.4, "tf32": 653.7, "fp32": 163.4},
    "MI325X": {"fp8": 2614.9, "bf16": 1307.4, "fp16": 1307.4, "tf32": 653.7, "fp32": 163.4},
    "TPU-v4": {"bf16": 275},
    "TPU-v5e": {"bf16": 197},
    "TPU-v5p": {"bf16": 459},
    "TPU-v6e": {"bf16": 918},
}

PEAK_RATES: tuple[PeakRate, ...] = tuple(
    PeakRate(hardware, precision, teraflops)
    for hardware, sheet in _SHEETS.items()
    for precision, teraflops in sheet.items()
)


class Price(NamedTuple):
    """What an hour of one accelerator costs from an instant on, until a later price begins."""

    hardware: str
    from_us: int  #: a midnight, UTC
    per_gpu_hour: Fraction


class Target(NamedTuple):
    """What ETT% the cohorts aim at that have all these labels."""

    where: Mapping[str, str]
    ett_ratio: float


class Part(NamedTuple):
    """Totals of one hardware and precision within the time of one price."""

    hardware: str
    precision: str
    at_us: int  #: an instant of that time
    totals: Totals


@dataclass(frozen=True, slots=True)
class Cost:
    """Money by category of held accelerators' time; None where any of the time has no price."""

    total: float | None
    by_category: Mapping[Category, float | None]
    unpriced_gpu_us: int


@dataclass(frozen=True, slots=True)
class Economy:
    """Prices, peak rates and targets; hardware and precision are matched in any case."""

    prices: tuple[Price, ...] = ()
    peak_rates: tuple[PeakRate, ...] = ()  #: they go before those of the data sheets
    targets: tuple[Target, ...] = ()
    currency: str = "USD"
    accelerators_per_node: int = 8
    _prices: dict[str, list[Price]] = field(init=False, repr=False, compare=False)
    _peaks: dict[tuple[str, str], float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        prices: dict[str, list[Price]] = {}
        for price in sorted(self.prices, key=lambda one: one.from_us):
            prices.setdefault(price.hardware.casefold(), []).append(price)
        peaks = {
            (rate.hardware.casefold(), rate.precision.casefold()): rate.teraflops
            for rate in (*PEAK_RATES, *self.peak_rates)
        }
        object.__setattr__(self, "_prices", prices)
        object.__setattr__(self, "_peaks", peaks)

    def price(self, hardware: str, at_us: int) -> Fraction | None:
        """Return what an hour of one accelerator cost at an instant; None if nobody said."""
        begun = [one for one in self._prices.get(hardware.casefold(), ()) if one.from_us <= at_us]
        return begun[-1].per_gpu_hour if begun else None

    def peak_teraflops(self, hardware: str, precision: str) -> float | None:
        """Return the dense peak of one accelerator in teraflops a second; None if unknown."""
        return self._peaks.get((hardware.casefold(), precision.casefold()))

    def cuts(self, from_us: int, to_us: int) -> list[int]:
        """Return the instants inside a window at which a price begins."""
        return sorted({one.from_us for one in self.prices if from_us < one.from_us < to_us})

    def target(self, labels: Mapping[str, str]) -> float | None:
        """Return the target ETT% that names most of a cohort's *labels* and none against them.

        Of two that name equally many it is the one that was told first; None without any.
        """
        fits = [one for one in self.targets if one.where.items() <= labels.items()]
        best = max(fits, key=lambda one: len(one.where), default=None)
        return None if best is None else best.ett_ratio

    def cost(self, parts: Iterable[Part]) -> Cost:
        """Add up what the parts cost: GPU time by price first, then money, rounded once.

        Without any price in the settings nothing has a cost, not even no time.
        """
        money = dict.fromkeys(Category, Fraction(0))
        unpriced = dict.fromkeys(Category, 0)
        for part in parts:
            price = self.price(part.hardware, part.at_us)
            for category in Category:
                us = part.totals.category_gpu_us(category)
                if price is None:
                    unpriced[category] += us
                else:
                    money[category] += price * us / HOUR_US
        left = sum(unpriced.values())
        return Cost(
            None if left or not self.prices else float(sum(money.values())),
            {
                category: None if unpriced[category] or not self.prices else float(money[category])
                for category in Category
            },
            left,
        )
