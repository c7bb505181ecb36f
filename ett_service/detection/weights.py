"""How the chance of a false alarm is shared out among series that could show very different things.

A series that would score 3 for a change worth telling of needs a lower bar than one that would
score 10 and passes any, or one that would score 1 and passes none. The weights are those that find
most at the same overall chance of a false finding (Roeder and Wasserman 2009). They keep it since
they go by numbers of values and by spreads, not by what was found. A part is shared out equally.
"""

import numpy as np
from scipy.special import ndtr

from ett_service.core.regression import Metric, Subject
from ett_service.detection.sample import Floats

WORTH = 1.5  #: the factor that they are made for
_MOST = 4.5  #: a series that would score more has to be as quick to tell of as one of this score
_LEAST = 0.3  #: what would score less
_EQUAL = 0.3  #: part that all share alike

_PRIOR = {
    Metric.FAILURES_PER_GPU_HOUR: 0.2,
    Metric.UNSAVED_SECONDS: 0.15,
    Metric.TIME_TO_START_SECONDS: 0.15,
    Metric.TIME_TO_RECOVER_SECONDS: 0.15,
    Metric.ETT_RATIO: 0.15,
}
"""What a series weighs that mostly follows others, and so has a say where these are silent."""


def prior(subject: Subject) -> float:
    """Return what a subject's series weigh before anything is known of their values."""
    return _PRIOR.get(subject.metric, 1.0)


def weights(promise: Floats, prior: Floats, q: float) -> Floats:
    """Return weights whose mean is 1, by the score that a change worth telling of would have.

    *prior* is what they are multiplied by.
    """
    if not len(promise):
        return np.ones(0)
    score = np.clip(promise, _LEAST, _MOST)
    low, high = -30.0, 30.0
    for _ in range(40):
        middle = (low + high) / 2
        if ndtr(-score / 2 - middle / score).sum() > q:
            low = middle
        else:
            high = middle
    best = ndtr(-score / 2 - high / score)
    whole = float(best.sum())
    best = best * len(best) / whole if whole else np.ones(len(best))
    found = (_EQUAL + (1 - _EQUAL) * best) * prior
    return np.asarray(found * len(found) / found.sum())
