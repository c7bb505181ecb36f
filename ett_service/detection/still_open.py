"""Whether what is open still holds: the latest days beside the baseline it was found against."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from ett_service.core.regression import Finding, Gate, Impact, Series, Verdict
from ett_service.detection.margins import Groups
from ett_service.detection.options import Frozen, Memory, Options
from ett_service.detection.pursuit import BETTER, WORSE
from ett_service.detection.sample import Ints
from ett_service.detection.watch import Change
from ett_service.detection.watching import subjects, watch
from ett_service.detection.window import Window

LATEST_DAYS = 7  #: that have to hold the change still; whole weeks, so that weekdays do not matter
_FEWEST_RECENT = 4
_FEWEST_BASELINE = 8


@dataclass(frozen=True, slots=True)
class _Told:
    """An open series since its onset, or in its latest days alone."""

    change: Change
    score: float


def followed(window: Window, groups: Groups, options: Options, memory: Memory) -> Iterator[Finding]:
    """Yield what is left of each open series, if there are values enough to tell."""
    known = set(subjects(window.sample))
    for series, frozen in sorted(memory.open.items()):
        place = groups.place(series.cohort)
        if place is None or series.subject not in known:
            continue
        finding = _followed(window, groups, options, series, frozen)
        if finding is not None:
            yield finding


def _followed(
    window: Window, groups: Groups, options: Options, series: Series, frozen: Frozen
) -> Finding | None:
    days = np.arange(window.sample.days)
    baseline = days[window.day_of(frozen.from_us) : max(window.day_of(frozen.to_us), 0)]
    onset = max(window.day_of(frozen.onset_us), window.sample.days - options.recent_days)
    recent = days[max(onset, 0) :]
    whole = _told(window, groups, series, baseline, recent)
    if whole is None:
        return None
    latest = _told(window, groups, series, baseline, recent[-LATEST_DAYS:]) or whole
    sign = BETTER if frozen.improvement else WORSE
    now = latest.change.worse if sign == WORSE else 1 / max(latest.change.worse, 1e-9)
    half = 1 + (options.effect_floor - 1) / 2
    p = float(ndtr(-sign * whole.score))
    change = whole.change
    return Finding(
        series=series,
        verdict=Verdict.IMPROVEMENT if frozen.improvement else Verdict.REGRESSION,
        ratio=change.ratio,
        low=change.low,
        high=change.high,
        p=p,
        q=p,
        onset_us=frozen.onset_us,
        before=replace(change.before, to_us=window.end_us(int(baseline[-1]))),
        after=change.after,
        gates=(
            Gate("recent_values", change.after.n, _FEWEST_RECENT, passed=True),
            Gate("baseline_values", change.before.n, _FEWEST_BASELINE, passed=True),
            Gate("latest_effect", now, half, passed=now >= half),
        ),
        impact=Impact(change.gpu_hours_per_week),
        holds=now >= half,
    )


def _told(
    window: Window, groups: Groups, series: Series, baseline: Ints, recent: Ints
) -> _Told | None:
    """Compare days of the sample; None where they have too few values."""
    place = groups.place(series.cohort)
    if place is None or not len(baseline) or not len(recent):
        return None
    found = watch(series.subject, window.beside(baseline, recent), groups, Memory())
    change = found.change(place, len(baseline), found.days)
    if change.after.n < _FEWEST_RECENT or change.before.n < _FEWEST_BASELINE:
        return None
    return _Told(change, found.since(place, len(baseline)).score)
