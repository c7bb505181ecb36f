"""Where a change lies: in which phase, in which cohort, and in the mix of jobs or within them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ett_service.core.decomposition import Decomposition, decompose
from ett_service.core.interval import DAY_US
from ett_service.core.regression import Cohort, Finding, Metric, Subject
from ett_service.core.vocabulary import Category
from ett_service.detection import affected, shares
from ett_service.detection.affected import Window, Windows
from ett_service.detection.completed import BEFORE_THE_LOOP
from ett_service.detection.dimensions import Bools
from ett_service.detection.observed import Observed
from ett_service.detection.sample import Floats, Ints

MOST_COHORTS = 20
"""Cohorts that are named; the others are put together."""

OTHERS = "others"

_START = Subject(Metric.TIME_TO_START_SECONDS)
_PHASES = {each.value: Subject(Metric.PHASE_SECONDS, each.value) for each in BEFORE_THE_LOOP}
_OF_A_START = frozenset({Metric.PHASE_SECONDS, Metric.STAGE_SECONDS, Metric.TIME_TO_START_SECONDS})
_UNATTRIBUTED = Category.UNATTRIBUTED.value


@dataclass(frozen=True, slots=True)
class Located:
    """As in ``core.regression.Attribution``."""

    phase_shares: Mapping[str, float]
    cohort_shares: Mapping[str, float]
    within_points: float | None
    mix_points: float | None


def located(observed: Observed, finding: Finding, windows: Windows) -> Located:
    """Share a finding's change out, and that of ETT% of its cohort in the same windows."""
    split = _decomposed(observed, windows, finding.series.cohort)
    mix = float(sum(part.change for part in split.parts if part.category is None))
    return Located(
        *_shares(observed, finding, windows, split),
        within_points=100 * (float(split.change) - mix) if split.parts else None,
        mix_points=100 * mix if split.parts else None,
    )


def _shares(
    observed: Observed, finding: Finding, windows: Windows, split: Decomposition[Cohort]
) -> tuple[dict[str, float], dict[str, float]]:
    subject, cohort = finding.series.subject, finding.series.cohort
    if subject.metric is Metric.ETT_RATIO:
        by_category = {name: float(share) for name, share in shares.by_category(split).items()}
        return by_category, _named(shares.by_cohort_of(split))
    if affected.is_rate(subject.metric):
        return {}, {}
    rows = affected.durations(observed, subject, windows)
    rows = rows.chosen(shares.middle(rows.us, rows.after))
    cohorts = [observed.cohorts[place] for place in observed.attempts.cohort[rows.attempt].tolist()]
    by_cohort = _named(shares.by_cohort(rows.us, rows.after, cohorts))
    starts = subject.metric in _OF_A_START and subject.phase in ("", *_PHASES)
    return _phases(observed, windows, cohort, subject) if starts else {}, by_cohort


def _named(found: Mapping[Cohort, Fraction]) -> dict[str, float]:
    told = [
        (",".join(f"{name}={value}" for name, value in key), share) for key, share in found.items()
    ]
    named = {name: float(share) for name, share in told[:MOST_COHORTS]}
    if rest := told[MOST_COHORTS:]:
        named[OTHERS] = float(sum(share for _, share in rest))
    return named


def _phases(
    observed: Observed, windows: Windows, cohort: Cohort, subject: Subject
) -> dict[str, float]:
    """Share the change of the time before the loop out among its phases.

    Of a job's time to start what is in no phase of the attempt that reached the loop counts as
    unattributed: attempts before it, waits, and what was not reported.
    """
    parts, attempt, after = _starts(observed, windows)
    if subject.metric is Metric.TIME_TO_START_SECONDS:
        rows = affected.durations(observed, _START, windows)
        whole = np.zeros(len(observed.attempts.unit), dtype=np.int64)
        whole[rows.attempt] = rows.us
        of_a_job = np.isin(attempt, rows.attempt)
        attempt, after = attempt[of_a_job], after[of_a_job]
        parts = {name: us[of_a_job] for name, us in parts.items()}
        parts[_UNATTRIBUTED] = whole[attempt] - sum(parts.values(), np.zeros_like(attempt))
    places = observed.attempts.cohort[attempt]
    kept = affected.in_cohort(observed, cohort)[places]
    total = sum(parts.values(), np.zeros_like(attempt))
    kept[kept] &= shares.middle(total[kept], after[kept])
    strata = observed.attempts.stratum[attempt[kept]].tolist()
    found = shares.by_part({name: us[kept] for name, us in parts.items()}, after[kept], strata)
    return {name: float(share) for name, share in found.items()}


def _starts(observed: Observed, windows: Windows) -> tuple[dict[str, Ints], Ints, Bools]:
    """Return the attempts that reached a loop in the windows, and their phases' time."""
    found = {name: affected.durations(observed, each, windows) for name, each in _PHASES.items()}
    attempt = np.unique(np.concatenate([rows.attempt for rows in found.values()]))
    after = np.zeros(len(observed.attempts.unit), dtype=np.bool_)
    parts = {}
    for name, rows in found.items():
        us = np.zeros(len(after), dtype=np.int64)
        us[rows.attempt] = rows.us
        after[rows.attempt] = rows.after
        parts[name] = us[attempt]
    return parts, attempt, after[attempt]


def _decomposed(observed: Observed, windows: Windows, cohort: Cohort) -> Decomposition[Cohort]:
    base, current = (_times(observed, window, cohort) for window in (windows.before, windows.after))
    return decompose(base, current)


def _times(observed: Observed, window: Window, cohort: Cohort) -> dict[Cohort, dict[Category, int]]:
    """Sum the time times accelerators of a cohort's days that lie in a window."""
    day_us = observed.to_us - (observed.days - observed.time_day.astype(np.int64)) * DAY_US
    inside = (day_us >= window[0]) & (day_us < window[1])
    inside &= affected.in_cohort(observed, cohort)[observed.time_cohort]
    sums: dict[Category, Floats] = {
        category: np.bincount(
            observed.time_cohort[inside],
            observed.time[category.value][inside],
            minlength=len(observed.cohorts),
        ).astype(np.float64)
        for category in Category
    }
    return {
        one: {category: int(us[place]) for category, us in sums.items() if us[place]}
        for place, one in enumerate(observed.cohorts)
        if any(us[place] for us in sums.values())
    }
