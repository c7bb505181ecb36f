"""Changes that are older than the days that are searched: nobody is to be woken by those.

The first run over a project, and events that came in weeks late, show changes of long ago. The
detector places them at the beginning of its recent window, for it looks no further back; so what
begins there is compared with the days before it.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ett_service.core.interval import DAY_US
from ett_service.core.regression import Cohort, Finding, Metric, Subject
from ett_service.core.vocabulary import Category
from ett_service.detection.observed import Observed

Flags: TypeAlias = NDArray[np.bool_]

_NEAR_DAYS = 3  #: from the window's edge on, in which an older onset is placed
_BEFORE_DAYS = 7
_LATEST = 8  #: durations of these days, of which the median tells
_FEWEST = 4


def is_old(finding: Finding, observed: Observed, as_of_us: int, recent_days: int) -> bool:
    """Tell whether a change began before the recent window.

    It did where what was last before its onset, of a week at most, is nearer to what is now than
    to what was before.
    """
    edge_us = as_of_us - recent_days * DAY_US
    if finding.onset_us < edge_us:
        return True
    if finding.onset_us > edge_us + _NEAR_DAYS * DAY_US:
        return False
    inside = _inside(observed, finding.series.cohort)
    since_us = finding.onset_us - _BEFORE_DAYS * DAY_US
    was, last, now = (
        _level(finding.series.subject, observed, inside, span, latest)
        for span, latest in (
            ((finding.before.from_us, since_us), 0),
            ((since_us, finding.onset_us), _LATEST),
            ((finding.onset_us, as_of_us), 0),
        )
    )
    if was is None or last is None or now is None:
        return False
    return abs(last - now) < abs(last - was)


def _inside(observed: Observed, cohort: Cohort) -> Flags:
    wanted = set(cohort)
    return np.array([wanted <= set(one) for one in observed.cohorts], dtype=np.bool_)


def _level(
    subject: Subject, observed: Observed, inside: Flags, span: tuple[int, int], latest: int
) -> float | None:
    """Return a subject's level in a span, of durations that of the *latest* (0: of all).

    None where too little is known.
    """
    if span[0] >= span[1]:
        return None
    if subject.metric is Metric.ETT_RATIO:
        return _ett(observed, inside, span)
    if subject.metric is Metric.FAILURES_PER_GPU_HOUR:
        return _rate(subject, observed, inside, span)
    values = observed.durations[subject].between(*span)
    us = values.us[inside[observed.attempts.cohort[values.attempt]]][-latest:]
    return float(np.median(np.log(us))) if len(us) >= _FEWEST else None


def _rate(
    subject: Subject, observed: Observed, inside: Flags, span: tuple[int, int]
) -> float | None:
    days = (span[1] - span[0]) // DAY_US
    hours = float(observed.gpu_hours(span[0], days)[inside].sum())
    failed = observed.failures[subject].between(*span).attempt
    events = int(inside[observed.attempts.cohort[failed]].sum())
    return events / hours if hours else None


def _ett(observed: Observed, inside: Flags, span: tuple[int, int]) -> float | None:
    first_us = observed.to_us - observed.days * DAY_US
    first, last = ((at_us - first_us) // DAY_US for at_us in span)
    rows = inside[observed.time_cohort]
    rows &= (observed.time_day >= first) & (observed.time_day < last)
    whole = sum(float(us[rows].sum()) for us in observed.time.values())
    return float(observed.time[Category.EFFECTIVE_TRAINING][rows].sum()) / whole if whole else None
