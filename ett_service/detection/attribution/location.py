"""Where a change lies: the values before and after its onset, by phase, cohort and mix."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from ett_service.core.fleet.decomposition import Decomposition, decompose
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.regressions.finding import Finding, Metric, SeriesCohort, Subject
from ett_service.core.words import BEFORE_THE_LOOP, Category
from ett_service.detection.sample import (
    AttemptValues,
    Flags,
    Floats,
    Held,
    Ints,
    Observed,
    SmallInts,
)
from ett_service.detection.window import within

_NONE = np.zeros(0, dtype=np.int64)
_NO_VALUES = AttemptValues(_NONE, _NONE, _NONE, _NONE.astype(np.int32), _NONE)

MOST_ROWS = 4_000
"""Of more rows than this on a side, so many are used, evenly spread over time."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Windows:
    """Before and after a finding's onset, in microseconds."""

    before: Span
    after: Span

    @classmethod
    def of(cls, finding: Finding) -> "Windows":
        """Return the windows that the detector compared, cut at the onset."""
        before, after, onset = finding.before, finding.after, finding.onset_us
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
    stratum: SmallInts
    after: Flags

    def chosen(self, rows: "Flags | np.ndarray[tuple[int], np.dtype[np.intp]]") -> "Affected":
        """Return some of the rows."""
        return Affected(
            self.us[rows],
            self.known_us[rows],
            self.attempt[rows],
            self.stratum[rows],
            self.after[rows],
        )


def durations(observed: Observed, subject: Subject, windows: Windows) -> Affected:
    """Return the subject's durations of all cohorts that became known in the windows.

    Of misses of a cache they are those of the phase.
    """
    values = observed.durations.get(subject, _NO_VALUES)
    before, after = values.between(*windows.before), values.between(*windows.after)
    return Affected(
        np.concatenate([_lengths(subject, before), _lengths(subject, after)]),
        np.concatenate([before.known_us, after.known_us]),
        np.concatenate([before.attempt, after.attempt]),
        np.concatenate([before.stratum, after.stratum]),
        np.repeat([False, True], [len(before.us), len(after.us)]),
    )


def _lengths(subject: Subject, values: AttemptValues) -> Ints:
    return values.spent_us if subject.metric is Metric.CACHE_MISS_RATIO else values.us


def of_cohort(observed: Observed, rows: Affected, cohort: SeriesCohort) -> Affected:
    """Return the rows of a cohort, which may name some of the dimensions only."""
    return rows.chosen(within(observed.cohorts, cohort)[observed.attempts.cohort[rows.attempt]])


def thinned(rows: Affected) -> Affected:
    """Return at most ``MOST_ROWS`` of each side."""
    places = [np.flatnonzero(side) for side in (~rows.after, rows.after)]
    thin = [
        side[np.linspace(0, len(side) - 1, MOST_ROWS).round().astype(np.intp)]
        if len(side) > MOST_ROWS
        else side
        for side in places
    ]
    return rows.chosen(np.concatenate(thin))


@dataclass(frozen=True, slots=True)
class Exposed:
    """Attempts in both windows, each with its failures and the GPU-hours that it held."""

    events: Floats
    hours: Floats
    attempt: Ints
    after: Flags


def failures(
    observed: Observed, subject: Subject, windows: Windows, cohort: SeriesCohort
) -> Exposed:
    """Count the failures of a cohort's attempts over the hours of each window."""
    in_cohort = within(observed.cohorts, cohort)[observed.attempts.cohort]
    failed = observed.failures.get(subject)
    sides = []
    for span in (windows.before, windows.after):
        hours = _hours(observed.held, observed.attempts.gpus, span)
        events = np.zeros(len(hours))
        if failed is not None:
            np.add.at(events, failed.between(*span).attempt, 1.0)
        rows = np.flatnonzero(in_cohort & (hours > 0))
        sides.append((events[rows], hours[rows], rows))
    events, hours, attempt = (np.concatenate(column) for column in zip(*sides, strict=True))
    after = np.repeat([False, True], [len(side[2]) for side in sides])
    return Exposed(events, hours, attempt, after)


def is_rate(metric: Metric) -> bool:
    """Whether a metric counts events, and has no durations."""
    return metric is Metric.FAILURES_PER_GPU_HOUR


def _hours(held: Held, gpus: Floats, span: Span) -> Floats:
    inside_us = np.minimum(held.to_us, span[1]) - np.maximum(held.from_us, span[0])
    hours = np.maximum(inside_us, 0) / HOUR_US * np.nan_to_num(gpus[held.attempt])
    return np.bincount(held.attempt, hours, minlength=len(gpus)).astype(np.float64)


K = TypeVar("K")
MIX = "mix"

_TRIMMED_PERCENT = 5
_FEWEST_TRIMMED = 20


def middle(us: Ints, after: Flags) -> Flags:
    """Mark the rows of each side but its longest and shortest: one long wait says little."""
    inside = np.ones(len(us), dtype=np.bool_)
    for side in (~after, after):
        if np.count_nonzero(side) >= _FEWEST_TRIMMED:
            low, high = np.percentile(us[side], [_TRIMMED_PERCENT, 100 - _TRIMMED_PERCENT])
            inside &= ~side | ((us >= low) & (us <= high))
    return inside


def by_part(parts: Mapping[str, Ints], after: Flags, strata: Sequence[int]) -> dict[str, Fraction]:
    """Share out the change of the sum of *parts* among them; nothing where it did not change."""
    sides = _places(after, strata)
    changes: dict[str, Fraction] = {}
    for name, us in parts.items():
        values = us.tolist()
        changes[name] = sum(
            (
                sum(values[place] for place in after)
                - Fraction(len(after), len(before)) * sum(values[place] for place in before)
                for before, after in sides
            ),
            Fraction(0),
        )
    return _shared(changes)


def cohort_shares(us: Ints, after: Flags, cohorts: Sequence[K]) -> dict[K, Fraction]:
    """Share out the change of the mean of *us* among the cohorts of its rows."""
    sums: dict[K, list[list[int]]] = {}
    for value, is_after, cohort in zip(us.tolist(), after.tolist(), cohorts, strict=True):
        side = sums.setdefault(cohort, [[0, 0], [0, 0]])[is_after]
        side[0] += value
        side[1] += 1
    rows = [sum(each[side][1] for each in sums.values()) for side in (0, 1)]
    if not all(rows):
        return {}
    means = [Fraction(sum(each[side][0] for each in sums.values()), rows[side]) for side in (0, 1)]
    mean = (means[0] + means[1]) / 2
    return _shared({key: _moved(each, rows, mean) for key, each in sums.items()})


def category_shares(split: Decomposition[K, Category]) -> dict[str, Fraction]:
    """Share out a change of ETT% among categories, and ``mix``."""
    changes: defaultdict[str, Fraction] = defaultdict(Fraction)
    for part in split.parts:
        changes[MIX if part.word is None else part.word.value] += part.change
    return _shared(changes)


def by_cohort_of(split: Decomposition[K, Category]) -> dict[K, Fraction]:
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
    return [pair for pair in sides.values() if all(pair)]


def _moved(sums: Sequence[Sequence[int]], rows: Sequence[int], middle_of_all: Fraction) -> Fraction:
    """Return what one cohort adds to the change of the mean of all."""
    weights = [Fraction(count, whole) for (_, count), whole in zip(sums, rows, strict=True)]
    means = [Fraction(us, count) for us, count in sums if count]
    mix = (weights[1] - weights[0]) * (sum(means, Fraction(0)) / len(means) - middle_of_all)
    inside = sum(weights, Fraction(0)) / 2 * (means[1] - means[0]) if len(means) > 1 else 0
    return mix + inside


def _shared(changes: Mapping[K, Fraction]) -> dict[K, Fraction]:
    whole = sum(changes.values(), Fraction(0))
    if not whole:
        return {}
    shares = {key: change / whole for key, change in changes.items() if change}
    return dict(sorted(shares.items(), key=lambda share: (-abs(share[1]), str(share[0]))))


MOST_COHORTS = 20
"""Cohorts that are named; the others are put together."""

OTHERS = "others"

_START = Subject(Metric.TIME_TO_START_SECONDS)
_PHASES = {each.value: Subject(Metric.PHASE_SECONDS, each.value) for each in BEFORE_THE_LOOP}
_OF_A_START = frozenset({Metric.PHASE_SECONDS, Metric.STAGE_SECONDS, Metric.TIME_TO_START_SECONDS})
_UNATTRIBUTED = Category.UNATTRIBUTED.value


@dataclass(frozen=True, slots=True)
class Located:
    """The shares and points of an ``Attribution``."""

    phase_shares: Mapping[str, float]
    cohort_shares: Mapping[str, float]
    within_points: float | None
    mix_points: float | None


def located(observed: Observed, finding: Finding, windows: Windows) -> Located:
    """Share a finding's change out, and that of ETT% of its cohort in the same windows."""
    split = _decomposed(observed, windows, finding.series.cohort)
    mix = float(sum(part.change for part in split.parts if part.word is None))
    return Located(
        *_shares(observed, finding, windows, split),
        within_points=100 * (float(split.change) - mix) if split.parts else None,
        mix_points=100 * mix if split.parts else None,
    )


def _shares(
    observed: Observed,
    finding: Finding,
    windows: Windows,
    split: Decomposition[SeriesCohort, Category],
) -> tuple[dict[str, float], dict[str, float]]:
    subject, cohort = finding.series.subject, finding.series.cohort
    if subject.metric is Metric.ETT_RATIO:
        by_category = {name: float(share) for name, share in category_shares(split).items()}
        return by_category, _named(by_cohort_of(split))
    if is_rate(subject.metric) or subject.metric is Metric.STEP_SECONDS:
        return {}, {}  # rates and step times of different settings do not add up
    rows = durations(observed, subject, windows)
    rows = rows.chosen(middle(rows.us, rows.after))
    cohorts = [observed.cohorts[place] for place in observed.attempts.cohort[rows.attempt].tolist()]
    by_cohort = _named(cohort_shares(rows.us, rows.after, cohorts))
    starts = subject.metric in _OF_A_START and subject.phase in ("", *_PHASES)
    return _phases(observed, windows, cohort, subject) if starts else {}, by_cohort


def _named(shares: Mapping[SeriesCohort, Fraction]) -> dict[str, float]:
    pairs = [
        (",".join(f"{name}={value}" for name, value in cohort), share)
        for cohort, share in shares.items()
    ]
    named = {name: float(share) for name, share in pairs[:MOST_COHORTS]}
    if rest := pairs[MOST_COHORTS:]:
        named[OTHERS] = float(sum(share for _, share in rest))
    return named


def _phases(
    observed: Observed, windows: Windows, cohort: SeriesCohort, subject: Subject
) -> dict[str, float]:
    """Share the change of the time before the loop out among its phases.

    Of a job's time to start what is in no phase of the attempt that reached the loop counts as
    unattributed: attempts before it, waits, and what was not reported.
    """
    parts, attempt, after = _starts(observed, windows)
    if subject.metric is Metric.TIME_TO_START_SECONDS:
        rows = durations(observed, _START, windows)
        whole = np.zeros(len(observed.attempts.unit), dtype=np.int64)
        whole[rows.attempt] = rows.us
        of_a_job = np.isin(attempt, rows.attempt)
        attempt, after = attempt[of_a_job], after[of_a_job]
        parts = {name: us[of_a_job] for name, us in parts.items()}
        parts[_UNATTRIBUTED] = whole[attempt] - sum(parts.values(), np.zeros_like(attempt))
    places = observed.attempts.cohort[attempt]
    inside = within(observed.cohorts, cohort)[places]
    total = sum(parts.values(), np.zeros_like(attempt))
    inside[inside] &= middle(total[inside], after[inside])
    strata = observed.attempts.stratum[attempt[inside]].tolist()
    shares = by_part({name: us[inside] for name, us in parts.items()}, after[inside], strata)
    return {name: float(share) for name, share in shares.items()}


def _starts(observed: Observed, windows: Windows) -> tuple[dict[str, Ints], Ints, Flags]:
    """Return the attempts that reached a loop in the windows, and their phases' time."""
    phases = {name: durations(observed, each, windows) for name, each in _PHASES.items()}
    attempt = np.unique(np.concatenate([rows.attempt for rows in phases.values()]))
    after = np.zeros(len(observed.attempts.unit), dtype=np.bool_)
    parts = {}
    for name, rows in phases.items():
        us = np.zeros(len(after), dtype=np.int64)
        us[rows.attempt] = rows.us
        after[rows.attempt] = rows.after
        parts[name] = us[attempt]
    return parts, attempt, after[attempt]


def _decomposed(
    observed: Observed, windows: Windows, cohort: SeriesCohort
) -> Decomposition[SeriesCohort, Category]:
    base, current = (_times(observed, span, cohort) for span in (windows.before, windows.after))
    return decompose(base, current)


def _times(
    observed: Observed, span: Span, cohort: SeriesCohort
) -> dict[SeriesCohort, dict[Category, int]]:
    """Sum the time times accelerators of a cohort's days that lie in a span."""
    day_us = observed.to_us - (observed.days - observed.time_day.astype(np.int64)) * DAY_US
    inside = (day_us >= span[0]) & (day_us < span[1])
    inside &= within(observed.cohorts, cohort)[observed.time_cohort]
    sums: dict[Category, Floats] = {
        category: np.bincount(
            observed.time_cohort[inside],
            observed.time[category.value][inside],
            minlength=len(observed.cohorts),
        ).astype(np.float64)
        for category in Category
    }
    return {
        each: {category: int(us[place]) for category, us in sums.items() if us[place]}
        for place, each in enumerate(observed.cohorts)
        if any(us[place] for us in sums.values())
    }
