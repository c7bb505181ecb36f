"""Two sets of jobs compared: what differs between them, how surely, and what does not.

Every figure that both sets have is compared by ranks (``detection.ranks``), failure rates by the
exact conditional test of two Poisson rates (Przyborowski and Wilenski, 1940; interval after
Clopper and Pearson, 1934). Probabilities are corrected for the number of figures by Holm's method,
those of stages apart. Attempts count as independent of each other, so those of few jobs are weaker
evidence than it seems.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from fractions import Fraction
from math import inf

import numpy as np
from scipy.special import bdtr, betaincinv
from sqlalchemy import Connection

from ett_service.core.fleet.decomposition import Decomposition, decompose
from ett_service.core.words import Category
from ett_service.detection import ranks
from ett_service.detection.attribution import location
from ett_service.detection.comparison.job_sets import JobSet
from ett_service.detection.comparison.set_figures import (
    ATTEMPT_START,
    ETT_RATIO,
    FAILURE_RATE,
    STAGE_OF,
    TIME_TO_START,
    SetFigures,
    measured,
)
from ett_service.detection.ranks import Ranked
from ett_service.detection.sample import Floats
from ett_service.detection.window import bounded_logarithms

LEVEL = 1 - ranks.CONFIDENCE
ALIKE = 1.15
"""An interval within this factor of no change means that nothing changed."""

_FEWEST = 2
_UNLIKE = 0.2  #: share of the attempts that would need another value
_TINY = 1e-4
_BIGGER_IS_BETTER = frozenset({ETT_RATIO})
_FIRST = (TIME_TO_START, ATTEMPT_START, ETT_RATIO, FAILURE_RATE)


class Difference(StrEnum):
    """The result for a figure."""

    WORSE = auto()
    BETTER = auto()
    ALIKE = auto()  #: no difference, and one larger than ``ALIKE`` is ruled out
    UNCLEAR = auto()  #: no difference shown, but one is possible
    TOO_FEW = auto()  #: too few values to show a difference of any size


@dataclass(frozen=True, slots=True)
class Level:
    """A figure in one set: durations in microseconds, rates an hour, ratios as they are."""

    n: int  #: attempts, or jobs for ``time_to_start`` and ``ett_ratio``; failures for rates
    value: float | None  #: the median; of rates, the rate


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure in both sets."""

    figure: str
    base: Level
    other: Level
    ranked: Ranked | None  #: None where a set has no value
    p: float | None  #: corrected for the number of figures
    smallest: float | None  #: the smallest factor that would show in 8 of 10 cases
    outcome: Difference

    @property
    def worse_by(self) -> float | None:
        """The factor by which it is worse; less than 1 where it is better."""
        if self.ranked is None:
            return None
        ratio = self.ranked.ratio
        if self.figure not in _BIGGER_IS_BETTER:
            return ratio
        return 1 / ratio if ratio else inf


@dataclass(frozen=True, slots=True)
class Members:
    """The size of a set."""

    jobs: int
    attempts: int
    gpu_hours: float
    drawn_from: int | None = None  #: of how many jobs these are a sample; None where of none


@dataclass(frozen=True, slots=True)
class Unlike:
    """A dimension or label in which the sets differ, and the value that most of each have."""

    dimension: str
    base: str
    other: str
    apart: float  #: share of the attempts that would need another value


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sets side by side."""

    base: Members
    other: Members
    compared: tuple[Compared, ...]
    start_shares: Mapping[str, float]
    """Part of the change of the mean ``attempt_start`` by phase; sums to 1."""
    ett: Decomposition[None, Category]
    """The change of effective time over all time of a set, by category."""
    unlike: tuple[Unlike, ...]


def compare(
    conn: Connection, project_id: int, base: JobSet, other: JobSet, now_us: int
) -> Comparison:
    """Compare two sets of a project's attempts; an attempt in both counts for *other* only."""
    return compare_figures(*measured(conn, project_id, (base, other), now_us))


def compare_figures(base: SetFigures, other: SetFigures) -> Comparison:
    """Compare the figures of two sets."""
    names = sorted({*base.durations_us, *other.durations_us})
    values = {name: _logs(base, other, name) for name in names}
    values[ETT_RATIO] = (_ratios(base), _ratios(other))
    ordered = sorted(values, key=lambda name: (_rank(name), name))
    ranked = {name: ranks.compare(*values[name]) for name in ordered}
    ranked[FAILURE_RATE] = _rates(base, other)
    corrected = _corrected(ranked)
    return Comparison(
        base=_members(base),
        other=_members(other),
        compared=tuple(
            _compared(name, (base, other), values.get(name), ranked[name], corrected.get(name))
            for name in sorted(ranked, key=lambda name: (_rank(name), name))
        ),
        start_shares=_start_shares(base, other),
        ett=decompose({None: _times(base)}, {None: _times(other)}),
        unlike=_unlike(base, other),
    )


def _corrected(ranked: Mapping[str, Ranked | None]) -> dict[str, float]:
    """Correct probabilities, stages apart: they are many, and parts of other figures."""
    corrected: dict[str, float] = {}
    for is_stage in (False, True):
        family = {
            name: figure.p
            for name, figure in ranked.items()
            if figure is not None and (STAGE_OF in name) == is_stage
        }
        corrected |= zip(family, ranks.holm(list(family.values())), strict=True)
    return corrected


def _rank(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _logs(base: SetFigures, other: SetFigures, name: str) -> tuple[Floats, Floats]:
    base_log, other_log = (
        bounded_logarithms(np.array(figures.durations_us.get(name, ()), dtype=np.int64))
        for figures in (base, other)
    )
    return base_log, other_log


def _ratios(figures: SetFigures) -> Floats:
    return np.log(np.maximum(np.array(figures.ratios, dtype=np.float64), _TINY))


def _compared(
    name: str,
    figures: tuple[SetFigures, SetFigures],
    values: tuple[Floats, Floats] | None,
    ranked: Ranked | None,
    p: float | None,
) -> Compared:
    base, other = (_level(each, name) for each in figures)
    smallest = None if values is None else ranks.smallest(*values)
    outcome = _outcome(name, ranked, p, few=values is not None and min(map(len, values)) < _FEWEST)
    return Compared(name, base, other, ranked, p, smallest, outcome)


def _outcome(name: str, ranked: Ranked | None, p: float | None, *, few: bool) -> Difference:
    if ranked is None or p is None or few:
        return Difference.TOO_FEW
    if p <= LEVEL and ranked.ratio != 1:
        is_bigger = ranked.ratio > 1
        return Difference.BETTER if is_bigger == (name in _BIGGER_IS_BETTER) else Difference.WORSE
    if ranked.low >= 1 / ALIKE and ranked.high <= ALIKE:
        return Difference.ALIKE
    return Difference.UNCLEAR if ranked.low > 0 or ranked.high < inf else Difference.TOO_FEW


def _level(figures: SetFigures, name: str) -> Level:
    if name == FAILURE_RATE:
        hours = figures.gpu_hours
        return Level(figures.failures, figures.failures / hours if hours else None)
    values: Sequence[float] = (
        figures.ratios if name == ETT_RATIO else figures.durations_us.get(name, ())
    )
    return Level(len(values), float(np.median(values)) if len(values) else None)


def _rates(base: SetFigures, other: SetFigures) -> Ranked | None:
    """Compare failures an accelerator's hour; None where a set has no such hours, or no failure."""
    together = base.failures + other.failures
    if not (base.gpu_hours and other.gpu_hours and together):
        return None
    part = other.gpu_hours / (base.gpu_hours + other.gpu_hours)
    below = float(bdtr(other.failures, together, part))
    above = 1 - float(bdtr(other.failures - 1, together, part)) if other.failures else 1.0
    tail = LEVEL / 2
    low = betaincinv(other.failures, base.failures + 1, tail) if other.failures else 0.0
    high = betaincinv(other.failures + 1, base.failures, 1 - tail) if base.failures else 1.0
    scale = base.gpu_hours / other.gpu_hours
    return Ranked(
        ratio=scale * other.failures / base.failures if base.failures else inf,
        low=scale * _odds(float(low)),
        high=scale * _odds(float(high)),
        p=min(1.0, 2 * min(below, above)),
    )


def _odds(part: float) -> float:
    return part / (1 - part) if part < 1 else inf


def _start_shares(base: SetFigures, other: SetFigures) -> dict[str, float]:
    starts = [*base.starts_us, *other.starts_us]
    if not starts:
        return {}
    parts = {
        name: np.array([start[name] for start in starts], dtype=np.int64) for name in starts[0]
    }
    after = np.repeat([False, True], [len(base.starts_us), len(other.starts_us)])
    shares: Mapping[str, Fraction] = location.by_part(parts, after, [0] * len(starts))
    return {name: float(share) for name, share in shares.items()}


def _times(figures: SetFigures) -> dict[Category, int]:
    return {Category(name): us for name, us in figures.times_us.items()}


def _members(figures: SetFigures) -> Members:
    return Members(len(figures.jobs), figures.attempts, figures.gpu_hours, figures.drawn_from)


def _unlike(base: SetFigures, other: SetFigures) -> tuple[Unlike, ...]:
    """Return the dimensions in which the sets differ; the distance is that of total variation."""
    if not (base.attempts and other.attempts):
        return ()
    unlike = []
    for name in sorted({*base.makeup, *other.makeup}):
        ours, theirs = base.makeup[name], other.makeup[name]
        apart = sum(
            abs(ours.get(value, 0) / base.attempts - theirs.get(value, 0) / other.attempts)
            for value in {*ours, *theirs}
        )
        if apart / 2 >= _UNLIKE:
            unlike.append(Unlike(name, _most(ours), _most(theirs), apart / 2))
    return tuple(sorted(unlike, key=lambda each: (-each.apart, each.dimension)))


def _most(counts: Mapping[str, int]) -> str:
    return min(counts, key=lambda value: (-counts[value], value))
