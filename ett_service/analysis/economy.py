"""What accelerators cost, what they could do and what is aimed at, as an operator told it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from ett_service.analysis.peak_rates import PEAK_RATES, PeakRate
from ett_service.core.interval import HOUR_US
from ett_service.core.totals import Totals
from ett_service.core.vocabulary import Category


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
