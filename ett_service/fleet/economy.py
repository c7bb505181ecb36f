"""What accelerators cost, what they can do at most, and what jobs get out of them.

Rates of productivity are over effective training, so that they do not move with ETT%; the useful
ratio, ETT% x MFU, joins both.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Connection

from ett_service.core.errors import refuse_negative
from ett_service.core.fleet.measures import MEASURES, PLAIN, WEIGHTED
from ett_service.core.fleet.totals import Totals, ratio
from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.core.words import Category
from ett_service.storage.fleet.job_sums import job_totals


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
        for price in sorted(self.prices, key=attrgetter("from_us")):
            prices.setdefault(price.hardware.casefold(), []).append(price)
        peaks = {
            (rate.hardware.casefold(), rate.precision.casefold()): rate.teraflops
            for rate in (*PEAK_RATES, *self.peak_rates)
        }
        object.__setattr__(self, "_prices", prices)
        object.__setattr__(self, "_peaks", peaks)

    def price(self, hardware: str, at_us: int) -> Fraction | None:
        """Return what an hour of one accelerator cost at an instant; None if nobody said."""
        begun = [
            price for price in self._prices.get(hardware.casefold(), ()) if price.from_us <= at_us
        ]
        return begun[-1].per_gpu_hour if begun else None

    def peak_teraflops(self, hardware: str, precision: str) -> float | None:
        """Return the dense peak of one accelerator in teraflops a second; None if unknown."""
        return self._peaks.get((hardware.casefold(), precision.casefold()))

    def cuts(self, from_us: int, to_us: int) -> list[int]:
        """Return the instants inside a window at which a price begins."""
        return sorted({price.from_us for price in self.prices if from_us < price.from_us < to_us})

    def target(self, labels: Mapping[str, str]) -> float | None:
        """Return the target ETT% that names most of a cohort's *labels* and none against them.

        Of two that name equally many it is the one that was named first; None without any.
        """
        fits = [target for target in self.targets if target.where.items() <= labels.items()]
        best = max(fits, key=lambda target: len(target.where), default=None)
        return None if best is None else best.ett_ratio

    def cost(self, parts: Iterable[Part]) -> Cost:
        """Add up what the parts cost: GPU time by price first, then money, rounded once.

        Without any price in the settings nothing has a cost, not even no time.
        """
        by_price: defaultdict[Fraction, Counter[Category]] = defaultdict(Counter)
        unpriced = Counter[Category]()
        for part in parts:
            price = self.price(part.hardware, part.at_us)
            of_price = unpriced if price is None else by_price[price]
            for category in Category:
                of_price[category] += part.totals.category_gpu_us(category)
        money = {
            category: sum((price * us[category] for price, us in by_price.items()), Fraction(0))
            / HOUR_US
            for category in Category
        }
        left = sum(unpriced.values())
        return Cost(
            None if left or not self.prices else float(sum(money.values())),
            {
                category: None if unpriced[category] or not self.prices else float(money[category])
                for category in Category
            },
            left,
        )


_MEASURES = (
    *PLAIN.categories.values(),
    *WEIGHTED.categories.values(),
    "restart_wait_gpu_us",
    *(name for name in MEASURES if name.startswith(("samples", "tokens", "teraflops"))),
)
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Productivity:
    """What jobs made of their effective training; rates are None where nobody reports what for.

    Rates in all are those of the mean job. Rates for an accelerator, MFU and cost leave out jobs
    whose accelerators are unknown.
    """

    samples: int
    tokens: int
    samples_per_second: float | None
    samples_per_second_per_accelerator: float | None
    tokens_per_second: float | None
    tokens_per_second_per_accelerator: float | None
    mfu_ratio: float | None  #: None, too, while a peak rate is unknown
    useful_ratio: float | None  #: ETT% x MFU: the share of the paid peak that the model needed
    cost_per_million_tokens: float | None  #: None, too, where any of the time has no price


def productivity(parts: Sequence[Part], economy: Economy) -> Productivity:
    """Divide what *parts* produced by what it took, each once."""
    totals = sum((part.totals for part in parts), Totals.ZERO)
    mfu = _mfu_ratio(parts, economy)
    samples, tokens = totals["samples"], totals["tokens"]
    return Productivity(
        samples=samples,
        tokens=tokens,
        samples_per_second=_per_second(samples, totals["samples_us"]),
        samples_per_second_per_accelerator=_per_second(
            totals["samples_known"], totals["samples_weighted_us"]
        ),
        tokens_per_second=_per_second(tokens, totals["tokens_us"]),
        tokens_per_second_per_accelerator=_per_second(
            totals["tokens_known"], totals["tokens_weighted_us"]
        ),
        mfu_ratio=mfu,
        useful_ratio=None if mfu is None else totals.ett_ratio * mfu,
        cost_per_million_tokens=_cost_per_million_tokens(parts, economy),
    )


def job_parts(conn: Connection, project_id: int, job: str, step_us: int = DAY_US) -> list[Part]:
    """Read a job's parts by *step_us* of UTC (an hour or a day), in order of time.

    Prices begin at midnight, so that each part has one. What has no time is left out: an attempt
    that ended on the hour is counted in the next one.
    """
    by_start = job_totals(conn, project_id, job, step_us, measures=_MEASURES)
    return [
        Part(hardware, precision, start_us or 0, totals)
        for (start_us, (hardware, precision)), totals in sorted(
            by_start.items(), key=lambda item: item[0][0] or 0
        )
        if totals.e2e_us
    ]


def _per_second(amount: int, us: int) -> float | None:
    return ratio(amount * SECOND_US, us) if amount and us else None


def _mfu_ratio(parts: Iterable[Part], economy: Economy) -> float | None:
    teraflops, attainable = 0, 0.0
    for part in parts:
        us = part.totals["teraflops_weighted_us"]
        if us:
            peak = economy.peak_teraflops(part.hardware, part.precision)
            if peak is None:
                return None
            attainable += peak * us / SECOND_US
        teraflops += part.totals["teraflops"]
    return mfu_ratio(teraflops, attainable) if teraflops else None


def _cost_per_million_tokens(parts: Iterable[Part], economy: Economy) -> float | None:
    tokens, cost = 0, Fraction(0)
    for part in parts:
        us = part.totals["tokens_gpu_us"]
        if us:
            price = economy.price(part.hardware, part.at_us)
            if price is None:
                return None
            cost += price * us / HOUR_US
        tokens += part.totals["tokens_known"]
    return float(cost * _MILLION / tokens) if tokens and cost else None


def mfu_ratio(teraflops: float, attainable_teraflops: float) -> float | None:
    """MFU as a ratio: what the model needed, over what its accelerators could have done.

    As defined by Chowdhery and others (PaLM, arXiv 2204.02311): operations that are computed
    again, to save memory, do not count. What was attainable is the sum of peak rates times time,
    over all accelerators. None where nothing was. Raises ValueError if an argument is negative.
    """
    refuse_negative(teraflops=teraflops, attainable_teraflops=attainable_teraflops)
    return teraflops / attainable_teraflops if attainable_teraflops else None
