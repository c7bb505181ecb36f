"""Since when, and how surely: a scan over all days on which a change may have begun.

For every start the days from it on are compared with those before. The largest of these scores
names the onset. The chance that the largest of scores so much alike is so large by itself is
bounded by Efron's length heuristic (Biometrika 1997): two neighbours whose correlation is ``cos a``
add ``phi(z) (2/z) (Phi(z a / 2) - 1/2)`` to the chance of the first.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ett_service.detection.panel import Panel
from ett_service.detection.sample import Flags, Floats, Ints

_YOUNG = 0.5
_SURE = 1e-9  #: odds under which nothing is known


class Fewest(NamedTuple):
    """How many values there have to be."""

    recent: int
    baseline: int


@dataclass(frozen=True, slots=True)
class Starts:
    """Groups by starts: place ``k`` compares the last ``k + 1`` days with the ones before."""

    score: Floats  #: standard normal without a change, positive for worse
    raw: Floats  #: standard errors of the change: what of several groups shows it most
    share: Floats  #: of the information that lies after the start, 0 to 1
    enough: Flags  #: whether there are values enough on both sides
    days: Ints  #: with rows, after the start


@dataclass(frozen=True, slots=True)
class Peaks:
    """The largest score of each group, over the starts that it has enough values for."""

    last: Ints  #: days since the start, at least 1; 0 where no start has enough values
    score: Floats
    p: Floats  #: one-sided; 1 without a start


def starts(panel: Panel, most: int, fewest: Fewest) -> Starts:
    """Compare the last 1 to *most* days of each group with its days before."""
    sure, told = panel.precision, panel.precision * panel.level
    seen = (panel.count > 0).astype(np.float64)
    after, before = tails(sure, most), heads(sure, most)
    change = _over(tails(told, most), after) - _over(heads(told, most), before)
    raw = change * np.sqrt(_over(after * before, after + before))
    recent = np.rint(tails(panel.effective, most)) >= fewest.recent
    return Starts(
        score=as_normal(raw, panel.freedom[:, None]),
        raw=raw,
        share=_over(after, after + before),
        enough=recent & (np.rint(heads(panel.effective, most)) >= fewest.baseline),
        days=tails(seen, most).astype(np.int64),
    )


def as_normal(score: Floats, freedom: Floats) -> Floats:
    """Return the normal score as rare as a Student's t of *freedom* (Wallace 1959)."""
    size = np.sqrt(freedom * np.log1p(score**2 / freedom))
    return np.sign(score) * size * (8 * freedom + 1) / (8 * freedom + 3)


def as_student(score: Floats, freedom: Floats) -> Floats:
    """Return the Student's t as rare as a normal score: ``as_normal`` backwards."""
    size = np.abs(score) * (8 * freedom + 3) / (8 * freedom + 1)
    return np.sign(score) * np.sqrt(freedom * np.expm1(size**2 / freedom))


def peaks(found: Starts, sign: int, fewest_days: int) -> Peaks:
    """Find the largest score for a change in the direction of *sign*.

    A start on one of the last *fewest_days* has to score by half more than another: noise that
    makes a change seem to be younger than it is would make it wait.
    """
    allowed = found.enough
    score = np.where(allowed, sign * found.score, -np.inf)
    place = (score - _YOUNG * (found.days < fewest_days)).argmax(axis=1)
    best, some = score[np.arange(len(score)), place], allowed.any(axis=1)
    p = np.where(some, chance(best, found.share, allowed), 1.0)
    return Peaks(np.where(some, place + 1, 0), np.where(some, best, 0.0), p)


def chance(score: Floats, share: Floats, allowed: Flags) -> Floats:
    """Bound the chance of so large a maximum over the *allowed* starts."""
    z = np.maximum(np.where(np.isfinite(score), score, 0.0), 0.1)[:, None]
    odds = share / np.maximum(1 - share, _SURE)
    alike = np.clip(odds[:, :-1] / np.maximum(odds[:, 1:], _SURE), 0.0, 1.0)
    angle = np.arccos(np.sqrt(alike))
    step = np.where(allowed[:, 1:] & allowed[:, :-1], ndtr(z * angle / 2) - 0.5, 0.0)
    density = np.exp(-(z[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)
    bound = ndtr(-z[:, 0]) + density * (2 / z[:, 0]) * step.sum(axis=1)
    return np.asarray(np.clip(bound, 0.0, 1.0))


def tails(values: Floats, most: int) -> Floats:
    """Return sums over the last 1, 2, ... days."""
    return np.asarray(np.cumsum(values[:, ::-1], axis=1)[:, :most])


def heads(values: Floats, most: int) -> Floats:
    """Return sums over all days but the last 1, 2, ..."""
    return np.asarray(values.sum(axis=1, keepdims=True) - tails(values, most))


def _over(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > _SURE)
