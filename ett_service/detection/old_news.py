"""Changes that are older than the days that are searched: nobody is to be woken by those.

The first run over a project, and events that came in weeks late, show changes of long ago. The
detector places them at the beginning of its recent window, for it looks no further back; so what
begins there is compared with the days before it.
"""

import numpy as np

from ett_service.core.interval import DAY_US
from ett_service.core.regression import Finding
from ett_service.detection.observed import Observed
from ett_service.detection.sample import Floats

_NEAR_DAYS = 3  #: from the window's edge on, in which an older onset is placed
_BEFORE_DAYS = 7
_LATEST = 8  #: values of these days, of which the median tells
_FEWEST = 4


def is_old(finding: Finding, observed: Observed, as_of_us: int, recent_days: int) -> bool:
    """Tell whether a change began before the recent window.

    Of durations it did where the last values before its onset, of a week at most, are nearer to
    what is now than to what was before.
    """
    edge_us = as_of_us - recent_days * DAY_US
    if finding.onset_us < edge_us:
        return True
    if finding.onset_us > edge_us + _NEAR_DAYS * DAY_US:
        return False
    since_us = finding.onset_us - _BEFORE_DAYS * DAY_US
    before = _logarithms(finding, observed, finding.before.from_us, since_us)
    last = _logarithms(finding, observed, since_us, finding.onset_us)[-_LATEST:]
    now = _logarithms(finding, observed, finding.onset_us, as_of_us)
    if min(len(before), len(last), len(now)) < _FEWEST:
        return False
    was, began, became = (float(np.median(one)) for one in (before, last, now))
    return abs(began - became) < abs(began - was)


def _logarithms(finding: Finding, observed: Observed, from_us: int, to_us: int) -> Floats:
    values = observed.durations.get(finding.series.subject)
    if values is None or to_us <= from_us:
        return np.array([])
    wanted = set(finding.series.cohort)
    inside = np.array([wanted <= set(one) for one in observed.cohorts], dtype=np.bool_)
    some = values.between(from_us, to_us)
    logarithms: Floats = np.log(some.us[inside[observed.attempts.cohort[some.attempt]]])
    return logarithms
