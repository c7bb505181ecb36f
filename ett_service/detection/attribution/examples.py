"""The values a finding is about, the attempts that show it best, suspects beside their peers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.finding import (
    Cohort,
    Finding,
    Metric,
    SideBySide,
    Subject,
    Suspect,
)
from ett_service.detection import ranks
from ett_service.detection.attribution.dimensions import Cell, holds
from ett_service.detection.sample import AttemptValues, Flags, Floats, Held, Ints, Observed
from ett_service.storage.regressions.attempt_facts import AttemptKey

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
    after: Flags

    def chosen(self, rows: "Flags | np.ndarray[tuple[int], np.dtype[np.intp]]") -> "Affected":
        """Return some of the rows."""
        return Affected(self.us[rows], self.known_us[rows], self.attempt[rows], self.after[rows])


def durations(observed: Observed, subject: Subject, windows: Windows) -> Affected:
    """Return the subject's durations of all cohorts that became known in the windows."""
    none = np.array([], dtype=np.int64)
    values = observed.durations.get(subject, AttemptValues(none, none, none))
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


def in_cohort(observed: Observed, cohort: Cohort) -> Flags:
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
    after: Flags


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


MOST = 3

_FARTHEST = 2.0  #: robust standard deviations from what is typical of the changed ones
_MAD = 1.4826


def examples(
    keys: Sequence[AttemptKey],
    level: Floats,
    after: Flags,
    cells: Sequence[Cell] | None,
    suspect: Sequence[Suspect],
    *,
    worse: bool,
) -> tuple[AttemptKey, ...]:
    """Choose up to ``MOST`` attempts after the onset, of as many jobs as there are.

    They are those whose *level* above (or below) their stratum's is the largest and still no
    outlier among those with the first *suspect*, whose dimension *cells* hold; among all without.
    """
    has = np.array(after)
    if cells is not None and suspect:
        has &= np.array([holds(cell, suspect[0].value) for cell in cells], dtype=np.bool_)
    places = np.flatnonzero(has)
    if not len(places):
        return ()
    typical = float(np.median(level[places]))
    reach = _FARTHEST * _MAD * float(np.median(np.abs(level[places] - typical)))
    sign = 1 if worse else -1
    ordered = sorted(
        places.tolist(),
        key=lambda at: (abs(level[at] - typical) > reach, -sign * level[at], keys[at]),
    )
    chosen: dict[str, AttemptKey] = {}
    for at in ordered:
        chosen.setdefault(keys[at][0], keys[at])
        if len(chosen) == MOST:
            break
    return tuple(chosen.values())


FEWEST = 3
"""Attempts with the value, and others, to compare any."""


def side_by_side(
    suspect: Suspect, cells: Sequence[Cell], log_us: Floats, after: Flags
) -> SideBySide | None:
    """Compare the suspect's rows with those of the value that most others had after the onset.

    *log_us* are logarithms of durations, strata taken off. What came only after the onset is
    compared with nothing, and of hosts all others are, since an attempt has several. None where
    either side has too few.
    """
    has = np.array([holds(cell, suspect.value) for cell in cells], dtype=np.bool_)
    several = any(not isinstance(cell, str) for cell in cells)
    against = "" if several else _most(cells, has, after)
    if not several and not against:
        return None
    others = np.array(
        [
            not is_in and (not against or cell == against)
            for cell, is_in in zip(cells, has, strict=True)
        ],
        dtype=np.bool_,
    )
    now = log_us[has & after], log_us[others & after]
    was = log_us[has & ~after], log_us[others & ~after]
    if min(len(one) for one in now) < FEWEST:
        return None
    apart = 0.0
    if min(len(one) for one in was) >= FEWEST:
        apart = float(np.median(was[0]) - np.median(was[1]))
    found = ranks.compare(now[1], now[0] - apart)
    if found is None:
        return None
    return SideBySide(
        dimension=suspect.dimension,
        value=suspect.value,
        against=against,
        n=len(now[0]),
        against_n=len(now[1]),
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        p=found.p,
    )


def _most(cells: Sequence[Cell], has: Flags, after: Flags) -> str:
    """Return what most of the others had, of what there was before, too; empty for none."""
    before = {cell for cell, is_after in zip(cells, after, strict=True) if not is_after}
    counts = Counter(
        cell
        for cell, is_in, is_after in zip(cells, has, after, strict=True)
        if is_after and not is_in and cell in before and isinstance(cell, str) and cell
    )
    return min(counts, key=lambda one: (-counts[one], one), default="")
