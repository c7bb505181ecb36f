"""The values that a finding is about, one a row: durations, or rates of attempts."""

from dataclasses import dataclass

import numpy as np

from ett_service.core.interval import HOUR_US
from ett_service.core.regression import Cohort, Finding, Metric, Subject
from ett_service.detection.dimensions import Bools
from ett_service.detection.observed import Held, Observed, Values
from ett_service.detection.sample import Floats, Ints

MOST_ROWS = 4_000
"""Of more rows than this on a side, so many are looked at, evenly spread over time."""

Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Windows:
    """Before and after a finding's onset, in microseconds."""

    before: Window
    after: Window

    @classmethod
    def of(cls, finding: Finding) -> "Windows":
        """Take what the detector compared, cut at the onset."""
        before, after = finding.before, finding.after
        onset = finding.onset_us
        return cls(
            (before.from_us, max(before.from_us, min(before.to_us, onset))),
            (min(max(onset, before.to_us), after.to_us), after.to_us),
        )


@dataclass(frozen=True, slots=True)
class Affected:
    """Rows of both windows in order of time; ``attempt`` is a place in ``Observed.attempts``."""

    us: Ints
    known_us: Ints
    attempt: Ints
    after: Bools

    def chosen(self, rows: "Bools | np.ndarray[tuple[int], np.dtype[np.intp]]") -> "Affected":
        """Return some of the rows."""
        return Affected(self.us[rows], self.known_us[rows], self.attempt[rows], self.after[rows])


def durations(observed: Observed, subject: Subject, windows: Windows) -> Affected:
    """Return the subject's durations of all cohorts that became known in the windows."""
    none = np.array([], dtype=np.int64)
    values = observed.durations.get(subject, Values(none, none, none))
    was, now = values.between(*windows.before), values.between(*windows.after)
    return Affected(
        np.concatenate([was.us, now.us]),
        np.concatenate([was.known_us, now.known_us]),
        np.concatenate([was.attempt, now.attempt]),
        np.repeat([False, True], [len(was.us), len(now.us)]),
    )


def of_cohort(observed: Observed, rows: Affected, cohort: Cohort) -> Affected:
    """Return the rows of a cohort, which may name some of the dimensions only."""
    return rows.chosen(in_cohort(observed, cohort)[observed.attempts.cohort[rows.attempt]])


def in_cohort(observed: Observed, cohort: Cohort) -> Bools:
    """Tell which of the observed cohorts are part of this one."""
    asked = set(cohort)
    return np.array([asked <= set(one) for one in observed.cohorts], dtype=np.bool_)


def thinned(rows: Affected) -> Affected:
    """Return at most ``MOST_ROWS`` of each side."""
    places = [np.flatnonzero(side) for side in (~rows.after, rows.after)]
    kept = [
        one[np.linspace(0, len(one) - 1, MOST_ROWS).round().astype(np.intp)]
        if len(one) > MOST_ROWS
        else one
        for one in places
    ]
    return rows.chosen(np.concatenate(kept))


@dataclass(frozen=True, slots=True)
class Exposed:
    """Attempts in a window, each with its failures and the GPU-hours that it held."""

    events: Floats
    hours: Floats
    attempt: Ints
    after: Bools


def failures(observed: Observed, subject: Subject, windows: Windows, cohort: Cohort) -> Exposed:
    """Count the failures of a cohort's attempts over the hours of each window."""
    wanted = in_cohort(observed, cohort)[observed.attempts.cohort]
    failed = observed.failures.get(subject)
    sides = []
    for window in (windows.before, windows.after):
        hours = _hours(observed.held, observed.attempts.gpus, window)
        events = np.zeros(len(hours))
        if failed is not None:
            np.add.at(events, failed.between(*window).attempt, 1.0)
        rows = np.flatnonzero(wanted & (hours > 0))
        sides.append((events[rows], hours[rows], rows))
    events, hours, attempt = (np.concatenate(column) for column in zip(*sides, strict=True))
    after = np.repeat([False, True], [len(one[2]) for one in sides])
    return Exposed(events, hours, attempt, after)


def is_rate(metric: Metric) -> bool:
    """Tell whether a metric counts events, and has no durations."""
    return metric is Metric.FAILURES_PER_GPU_HOUR


def _hours(held: Held, gpus: Floats, window: Window) -> Floats:
    spent = np.minimum(held.to_us, window[1]) - np.maximum(held.from_us, window[0])
    hours = np.maximum(spent, 0) / HOUR_US * np.nan_to_num(gpus[held.attempt])
    return np.bincount(held.attempt, hours, minlength=len(gpus)).astype(np.float64)
