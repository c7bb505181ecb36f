"""Whether two runs, one before a change and one after it, confirm a finding; and how many it takes.

Two that are alike say that what they differ in is not the cause. Whether there is a change at all
says their level: that of the baseline, or the one that was found.

Durations are compared by their logarithms, whose spread is that of the finding's own values: two
runs alone could not tell it. Only starts of one state are compared: first ones with first ones,
those that hit a cache with those that hit it. Starts of one job share a part of what is by chance.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from statistics import fmean, median
from typing import NamedTuple, TypeAlias

_Z_95 = 1.645  #: one-sided
_Z_80 = 0.842
_MAD_TO_SIGMA = 1.4826
_LEAST_SIGMA = 0.01  #: values that never differ are no proof that the next will not
MOST_STARTS = 1_000
"""More than so many starts of each version are no experiment that anybody makes."""


_PRIOR_PAIRS = 10
_PRIOR_SHARE = 0.5

Stratum: TypeAlias = tuple[str, ...]
"""What starts must share to be compared: the kind of start, and that of the cache."""


class Start(NamedTuple):
    """A start that was launched to settle a finding."""

    job: str
    state: Stratum
    log: float  #: of its duration


class Chance(NamedTuple):
    """What differs by chance from one start to the next."""

    sigma: float  #: standard deviation of logarithms
    of_job: float  #: the part of its square that all starts of a job share, 0 to 1


class Settlement(StrEnum):
    """What the two runs say."""

    CONFIRMED = auto()  #: the second is slower, and not by chance
    REFUTED = auto()  #: half of the change is ruled out, and both are as before it
    STANDS = auto()  #: half of the change is ruled out, and both are as slow as after it
    OPEN = auto()  #: none of these; more starts would decide


@dataclass(frozen=True, slots=True)
class Quotient:
    """How many times as long some starts take as others."""

    ratio: float
    low: float  #: of its 90 % interval
    high: float


@dataclass(frozen=True, slots=True)
class Settled:
    """The comparison of two runs."""

    outcome: Settlement
    runs: Quotient  #: the second run over the first
    of_baseline: Quotient | None = None
    """Both over those before the change; None where they differ, or none is comparable."""
    of_present: Quotient | None = None  #: both over those after it


def chance(*sides: Sequence[tuple[str, float]]) -> Chance | None:
    """Return how logarithms differ about the median of their side, robustly, by their jobs.

    Each value has the name of its job. None where a side has fewer than two. What starts of a job
    share is taken for half of all until there are many pairs of them.
    """
    if any(len(side) < 2 for side in sides):  # noqa: PLR2004 -- one has no spread
        return None
    by_job: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for place, side in enumerate(sides):
        middle = median(log for _, log in side)
        for job, log in side:
            by_job[place, job].append(log - middle)
    away = [each for of_job in by_job.values() for each in of_job]
    sigma = max(median(map(abs, away)) * _MAD_TO_SIGMA, _LEAST_SIGMA)
    return Chance(sigma, _of_job(by_job.values(), sigma))


def _of_job(by_job: Iterable[Sequence[float]], sigma: float) -> float:
    pairs, shared = float(_PRIOR_PAIRS), _PRIOR_PAIRS * _PRIOR_SHARE
    for away in by_job:
        cut = [min(max(each / sigma, -2.0), 2.0) for each in away]
        pairs += len(cut) * (len(cut) - 1)
        shared += sum(cut) ** 2 - sum(each**2 for each in cut)
    return min(max(shared / pairs, 0.0), 1.0)


def starts_needed(ratio: float, sigma: float) -> int:
    """Return how many starts of each version, by as many jobs, show a factor in 80 of 100 cases.

    *ratio* is positive and not 1. The answer is ``MOST_STARTS`` at most.
    """
    return min(MOST_STARTS, math.ceil(2 * ((_Z_95 + _Z_80) * sigma / math.log(ratio)) ** 2))


def in_common(base: Sequence[Start], other: Sequence[Start]) -> tuple[list[Start], list[Start]]:
    """Return the starts of each side of whose state the other side has some, too."""
    states = {start.state for start in base} & {start.state for start in other}
    return (
        [start for start in base if start.state in states],
        [start for start in other if start.state in states],
    )


class _Difference(NamedTuple):
    """The difference of the means of two sides."""

    effect: float  #: of logarithms
    margin: float

    def quotient(self) -> Quotient:
        low, high = (math.exp(self.effect + each) for each in (-self.margin, self.margin))
        return Quotient(math.exp(self.effect), low, high)


def settle(
    base: Sequence[Start],
    other: Sequence[Start],
    *,
    before: Sequence[Start],
    after: Sequence[Start],
    ratio: float,
    chance: Chance,
) -> Settled:
    """Compare starts with the *ratio* that was found; both sides have the same states, and some.

    *before* and *after* are those that it was found in, alike in all else.
    """
    runs = _difference(base, other, chance)
    sign, half = (1 if ratio >= 1 else -1), abs(math.log(ratio)) / 2
    if sign * runs.effect > runs.margin:
        return Settled(Settlement.CONFIRMED, runs.quotient())
    if sign * runs.effect + runs.margin >= half:
        return Settled(Settlement.OPEN, runs.quotient())
    of_baseline, of_present = (_level((*base, *other), side, chance) for side in (before, after))
    if of_baseline is not None:
        outcome = _by_level(sign * of_baseline.effect - half, of_baseline.margin)
    elif of_present is not None:
        outcome = _by_level(sign * of_present.effect + half, of_present.margin)
    else:
        outcome = Settlement.OPEN
    return Settled(
        outcome,
        runs.quotient(),
        None if of_baseline is None else of_baseline.quotient(),
        None if of_present is None else of_present.quotient(),
    )


def _by_level(over: float, margin: float) -> Settlement:
    """Say by how far two runs that are alike are *over* the middle of both levels."""
    if abs(over) <= margin:
        return Settlement.OPEN
    return Settlement.STANDS if over > 0 else Settlement.REFUTED


def _level(runs: Sequence[Start], level: Sequence[Start], chance: Chance) -> _Difference | None:
    """Compare both runs with what was found; None where no start is comparable."""
    known, of_runs = in_common(level, runs)
    return _difference(known, of_runs, chance) if known else None


def _difference(base: Sequence[Start], other: Sequence[Start], chance: Chance) -> _Difference:
    """Compare starts within their states; both sides have the same, and some."""
    effect = weight = 0.0
    for state in {start.state for start in base}:
        before, after = (
            [each.log for each in side if each.state == state] for side in (base, other)
        )
        of_state = len(before) * len(after) / (len(before) + len(after))
        effect += of_state * (fmean(after) - fmean(before))
        weight += of_state
    effect /= weight
    of_jobs = sum(1 / len({start.job for start in side}) for side in (base, other))
    variance = (1 - chance.of_job) / weight + chance.of_job * of_jobs
    return _Difference(effect, _Z_95 * chance.sigma * math.sqrt(variance))
