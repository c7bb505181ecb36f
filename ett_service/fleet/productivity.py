"""What jobs get out of their accelerators: throughput, MFU, money for tokens.

All rates are over effective training, so that they do not move with ETT%; the useful share,
ETT% x MFU, joins both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlalchemy import Connection

from ett_service.core.fleet.totals import MEASURES, WEIGHTED, Totals, ratio
from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.core.ledger.work import mfu_ratio
from ett_service.fleet.economy import Economy, Part
from ett_service.storage.fleet.job_sums import job_totals

_MEASURES = (
    *WEIGHTED.categories.values(),
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

    Prices begin at midnight, so that each part has one.
    """
    found = job_totals(conn, project_id, job, step_us, measures=_MEASURES)
    return [
        Part(hardware, precision, start_us or 0, totals)
        for (start_us, (hardware, precision)), totals in sorted(
            found.items(), key=lambda item: item[0][0] or 0
        )
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
