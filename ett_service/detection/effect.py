"""How much: the ratio of values after and before, and how far it may be off."""

from functools import lru_cache

import numpy as np

from ett_service.detection.panel import Flags
from ett_service.detection.sample import Floats

DRAWS = 400  #: of the bootstrap
_MOST_VALUES = 200  #: a longer side is told by so many of its quantiles
_SIDES = (2.5, 97.5)  #: of a 95 % interval, in percent
_NORMAL = 1.959964


def shift(before: Floats, after: Floats) -> float:
    """Return the median of all differences between both sides (Hodges and Lehmann 1963)."""
    if not len(before) or not len(after):
        return 0.0
    return float(np.median(_told(after)[:, None] - _told(before)[None, :]))


def doubt(level: Floats, precision: Floats, late: Flags) -> tuple[float, float]:
    """Return by how much the change of *level* may be under and over what it seems.

    Days are drawn anew with all that they hold, on both sides of the onset, since values of one
    day are not independent (block bootstrap). A few days are too alike to draw from, so it is
    never less than the standard errors say.
    """
    sides = [_drawn(level[days], precision[days]) for days in (late, ~late)]
    drawn = sides[0] - sides[1]
    error = np.sqrt(sum(1 / max(float(precision[days].sum()), 1e-12) for days in (late, ~late)))
    middle = _mean(level[late], precision[late]) - _mean(level[~late], precision[~late])
    low, high = np.percentile(drawn - middle, _SIDES)
    return min(float(low), -_NORMAL * float(error)), max(float(high), _NORMAL * float(error))


def _told(values: Floats) -> Floats:
    if len(values) <= _MOST_VALUES:
        return values
    places = (np.arange(_MOST_VALUES) + 0.5) / _MOST_VALUES
    return np.asarray(np.quantile(values, places))


def _drawn(level: Floats, precision: Floats) -> Floats:
    """Return the mean of *level* in each draw of its days."""
    some = precision > 0
    level, precision = level[some], precision[some]
    if not len(level):
        return np.zeros(DRAWS)
    times = _times(len(level))
    return np.asarray((times @ (precision * level)) / (times @ precision))


@lru_cache(maxsize=64)
def _times(days: int) -> Floats:
    """Return how often each of *days* is drawn, draw by draw; the same at every call."""
    draws = np.random.default_rng(days)
    return draws.multinomial(days, np.full(days, 1 / days), DRAWS).astype(np.float64)


def _mean(level: Floats, precision: Floats) -> float:
    whole = float(precision.sum())
    return float((precision * level).sum()) / whole if whole else 0.0
