"""Where a change lies: in which phase, which cohort, in the mix or within."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from ett_service.core.fleet.decomposition import Decomposition, decompose
from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import Cohort, Finding, Metric, Subject
from ett_service.core.words import Category
from ett_service.detection.attribution import examples
from ett_service.detection.attribution.examples import Window, Windows
from ett_service.detection.completed import BEFORE_THE_LOOP
from ett_service.detection.sample import Flags, Floats, Ints, Observed

K = TypeVar("K")
MIX = "mix"

_TRIMMED_PERCENT = 5
_FEWEST_TRIMMED = 20


def middle(us: Ints, after: Flags) -> Flags:
    """Mark the rows of each side without its longest and shortest: one long wait says little."""
    kept = np.ones(len(us), dtype=np.bool_)
    for side in (~after, after):
        if np.count_nonzero(side) >= _FEWEST_TRIMMED:
            low, high = np.percentile(us[side], [_TRIMMED_PERCENT, 100 - _TRIMMED_PERCENT])
            kept &= ~side | ((us >= low) & (us <= high))
    return kept


def by_part(parts: Mapping[str, Ints], after: Flags, strata: Sequence[int]) -> dict[str, Fraction]:
    """Share out the change of the sum of *parts* among them; nothing where it did not change."""
    sides = _places(after, strata)
    changes: dict[str, Fraction] = {}
    for name, us in parts.items():
        told = us.tolist()
        changes[name] = sum(
            (
                sum(told[place] for place in now)
                - Fraction(len(now), len(was)) * sum(told[place] for place in was)
                for was, now in sides
            ),
            Fraction(0),
        )
    return _shared(changes)


def cohort_shares(us: Ints, after: Flags, cohorts: Sequence[K]) -> dict[K, Fraction]:
    """Share out the change of the mean of *us* among the cohorts of its rows."""
    sums: dict[K, list[list[int]]] = {}
    for one, is_after, cohort in zip(us.tolist(), after.tolist(), cohorts, strict=True):
        side = sums.setdefault(cohort, [[0, 0], [0, 0]])[is_after]
        side[0] += one
        side[1] += 1
    rows = [sum(each[side][1] for each in sums.values()) for side in (0, 1)]
    if not all(rows):
        return {}
    means = [Fraction(sum(each[side][0] for each in sums.values()), rows[side]) for side in (0, 1)]
    mean = (means[0] + means[1]) / 2
    return _shared({key: _moved(each, rows, mean) for key, each in sums.items()})


def category_shares(split: Decomposition[K]) -> dict[str, Fraction]:
    """Share out a change of ETT% among categories, and ``mix``."""
    changes: defaultdict[str, Fraction] = defaultdict(Fraction)
    for part in split.parts:
        changes[MIX if part.category is None else part.category.value] += part.change
    return _shared(changes)


def by_cohort_of(split: Decomposition[K]) -> dict[K, Fraction]:
    """Share out a change of ETT% among cohorts."""
    changes: defaultdict[K, Fraction] = defaultdict(Fraction)
    for part in split.parts:
        changes[part.cohort] += part.change
    return _shared(changes)


def _places(after: Flags, strata: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the places of rows before and after, of strata that have both."""
    sides: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for place, (is_after, stratum) in enumerate(zip(after.tolist(), strata, strict=True)):
        sides[stratum][is_after].append(place)
    return [one for one in sides.values() if all(one)]


def _moved(sums: Sequence[Sequence[int]], rows: Sequence[int], middle_of_all: Fraction) -> Fraction:
    """Return what one cohort adds to the change of the mean of all."""
    weights = [Fraction(count, whole) for (_, count), whole in zip(sums, rows, strict=True)]
    known = [Fraction(us, count) for us, count in sums if count]
    mix = (weights[1] - weights[0]) * (sum(known, Fraction(0)) / len(known) - middle_of_all)
    within = sum(weights, Fraction(0)) / 2 * (known[1] - known[0]) if len(known) > 1 else 0
    return mix + within


def _shared(changes: Mapping[K, Fraction]) -> dict[K, Fraction]:
    whole = sum(changes.values(), Fraction(0))
    if not whole:
        return {}
    shares = {key: change / whole for key, change in changes.items() if change}
    return dict(sorted(shares.items(), key=lambda one: (-abs(one[1]), str(one[0]))))


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
        by_category = {name: float(share) for name, share in category_shares(split).items()}
        return by_category, _named(by_cohort_of(split))
    if examples.is_rate(subject.metric):
        return {}, {}
    rows = examples.durations(observed, subject, windows)
    rows = rows.chosen(middle(rows.us, rows.after))
    cohorts = [observed.cohorts[place] for place in observed.attempts.cohort[rows.attempt].tolist()]
    by_cohort = _named(cohort_shares(rows.us, rows.after, cohorts))
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
        rows = examples.durations(observed, _START, windows)
        whole = np.zeros(len(observed.attempts.unit), dtype=np.int64)
        whole[rows.attempt] = rows.us
        of_a_job = np.isin(attempt, rows.attempt)
        attempt, after = attempt[of_a_job], after[of_a_job]
        parts = {name: us[of_a_job] for name, us in parts.items()}
        parts[_UNATTRIBUTED] = whole[attempt] - sum(parts.values(), np.zeros_like(attempt))
    places = observed.attempts.cohort[attempt]
    kept = examples.in_cohort(observed, cohort)[places]
    total = sum(parts.values(), np.zeros_like(attempt))
    kept[kept] &= middle(total[kept], after[kept])
    strata = observed.attempts.stratum[attempt[kept]].tolist()
    found = by_part({name: us[kept] for name, us in parts.items()}, after[kept], strata)
    return {name: float(share) for name, share in found.items()}


def _starts(observed: Observed, windows: Windows) -> tuple[dict[str, Ints], Ints, Flags]:
    """Return the attempts that reached a loop in the windows, and their phases' time."""
    found = {name: examples.durations(observed, each, windows) for name, each in _PHASES.items()}
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
    inside &= examples.in_cohort(observed, cohort)[observed.time_cohort]
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
