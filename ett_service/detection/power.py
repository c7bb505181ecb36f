"""The smallest change that could have been found, so that silence is not read as health.

A change is found in 80 of 100 cases if it moves the score to 0.84 above what it has to be: the
score at which the first of all tested series passes, with the scan over onsets allowed for. It is
worked out for a change that fills the recent window, from the values that the window has.
"""

import numpy as np

from ett_service.detection.onset import Starts, chance
from ett_service.detection.options import Options, Power
from ett_service.detection.pursuit import Look
from ett_service.detection.sample import Floats
from ett_service.detection.watch import SURE

_NEAR = 3.8  #: a score near those that are needed, to start from


def powers(look: Look, p: Floats, options: Options) -> list[Power]:
    """Tell, for each cohort and group, the smallest factor that reaches a chance of *p*."""
    watch = look.watch
    score = needed(look.starts, p)
    factor = watch.smallest(score + SURE, options)
    recent, baseline = watch.values()
    return [
        Power(watch.subject, name, int(recent[place]), int(baseline[place]), _told(factor[place]))
        for place, name in enumerate(watch.groups.names)
    ]


def needed(starts: Starts, p: Floats) -> Floats:
    """Return the score whose chance, over all starts, is *p*; the tail of a normal near it."""
    score = np.full(len(starts.score), _NEAR)
    for _ in range(2):
        more = 2 * np.log(np.maximum(chance(score, starts.share, starts.enough), 1e-300) / p)
        score = np.sqrt(np.maximum(score**2 + more, 1.0))
    return score


def _told(factor: float) -> float | None:
    return float(factor) if np.isfinite(factor) else None
