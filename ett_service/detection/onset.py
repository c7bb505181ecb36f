"""The onset of a change: the start whose score is the largest, and the chance of that score.

For every start the days from it on are compared with those before. The scores are correlated, so
Efron's length heuristic (Biometrika 1997) bounds the chance of their maximum: two neighbours whose
correlation is ``cos a`` add ``phi(z) (2/z) (Phi(z a / 2) - 1/2)`` to the chance of the first.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ett_service.detection.panel import Panel, ratio
from ett_service.detection.sample import Flags, Floats, Ints

_YOUNG_PENALTY = 0.5  #: of the score of a start on the last days
_LEAST_INFORMATION = 1e-9


class Fewest(NamedTuple):
    """The fewest values of a change on either side."""

    recent: int
    baseline: int


@dataclass(frozen=True, slots=True)
class Starts:
    """Groups by starts: start ``k`` compares the last ``k + 1`` days with the ones before."""

    score: Floats  #: standard normal without a change, positive for worse
    raw: Floats  #: standard errors of the change; the group with most shows it best
    share: Floats  #: of the information after the start, 0 to 1
    enough: Flags  #: whether both sides have enough values
    days: Ints  #: with rows after the start


@dataclass(frozen=True, slots=True)
class Peaks:
    """The largest score of each group, over the starts with enough values."""

    last: Ints  #: days since the start, at least 1; 0 where no start has enough values
    score: Floats
    p: Floats  #: one-sided; 1 without a start


def start_scores(panel: Panel, most: int, fewest: Fewest) -> Starts:
    """Compare the last 1 to *most* days of each group with its days before."""
    precision, weighted = panel.precision, panel.precision * panel.level
    has_rows = (panel.count > 0).astype(np.float64)
    after, before = tails(precision, most), heads(precision, most)
    change = _over(tails(weighted, most), after) - _over(heads(weighted, most), before)
    raw = change * np.sqrt(_over(after * before, after + before))
    recent = np.rint(tails(panel.effective, most)) >= fewest.recent
    return Starts(
        score=as_normal(raw, panel.freedom[:, None]),
        raw=raw,
        share=_over(after, after + before),
        enough=recent & (np.rint(heads(panel.effective, most)) >= fewest.baseline),
        days=tails(has_rows, most).astype(np.int64),
    )


def as_normal(score: Floats, freedom: Floats) -> Floats:
    """Return the normal score as rare as a Student's t of *freedom* (Wallace 1959)."""
    size = np.sqrt(freedom * np.log1p(score**2 / freedom))
    return np.sign(score) * size * (8 * freedom + 1) / (8 * freedom + 3)


def as_student(score: Floats, freedom: Floats) -> Floats:
    """Return the Student's t as rare as a normal score: the inverse of ``as_normal``."""
    size = np.abs(score) * (8 * freedom + 3) / (8 * freedom + 1)
    return np.sign(score) * np.sqrt(freedom * np.expm1(size**2 / freedom))


def peaks(starts: Starts, sign: int, fewest_days: int) -> Peaks:
    """Return the largest score of each group for a change in the direction of *sign*.

    Starts within the last *fewest_days* are penalised: noise that makes a change look younger
    than it is would delay its finding.
    """
    allowed = starts.enough
    score = np.where(allowed, sign * starts.score, -np.inf)
    place = (score - _YOUNG_PENALTY * (starts.days < fewest_days)).argmax(axis=1)
    best, some = score[np.arange(len(score)), place], allowed.any(axis=1)
    p = np.where(some, chance(best, starts.share, allowed), 1.0)
    return Peaks(np.where(some, place + 1, 0), np.where(some, best, 0.0), p)


def chance(score: Floats, share: Floats, allowed: Flags) -> Floats:
    """Return a bound of the chance of a maximum so large over the *allowed* starts."""
    z = np.maximum(np.where(np.isfinite(score), score, 0.0), 0.1)[:, None]
    odds = share / np.maximum(1 - share, _LEAST_INFORMATION)
    correlation = np.clip(odds[:, :-1] / np.maximum(odds[:, 1:], _LEAST_INFORMATION), 0.0, 1.0)
    angle = np.arccos(np.sqrt(correlation))
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
    return ratio(part, whole, least=_LEAST_INFORMATION)
