"""The scan over every subject, every cohort and every day of onset."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtr

from ett_service.core.regressions.finding import (
    Finding,
    Gate,
    Impact,
    Metric,
    Series,
    Subject,
    Verdict,
)
from ett_service.detection.models.registry import series_model, subjects_of
from ett_service.detection.models.series_model import SURE, Change, SeriesModel
from ett_service.detection.onset import Starts, chance
from ett_service.detection.options import Frozen, Memory, Options, Power, Scan
from ett_service.detection.panel import Groups, groups
from ett_service.detection.sample import Floats, Ints, Sample
from ett_service.detection.selection import (
    BETTER,
    WORSE,
    WORTH,
    Bar,
    Candidate,
    Scores,
    adjusted,
    candidates,
    limit,
    prior,
    weights,
)
from ett_service.detection.verdict import (
    Context,
    are_beside,
    finding_of,
    is_outage_like,
    is_relabelled,
    mixes,
    passes,
    without_explained,
)
from ett_service.detection.window import Window

_NEAR = 3.8  #: a score near those that are needed, to start from


def powers(look: Scores, p: Floats, options: Options) -> list[Power]:
    """Tell, for each cohort and group, the smallest factor that reaches a chance of *p*."""
    watch = look.watch
    score = needed(look.starts, p)
    factor = watch.smallest(score + SURE, options)
    recent, baseline = watch.values()
    return [
        Power(watch.subject, name, int(recent[place]), int(baseline[place]), _finite(factor[place]))
        for place, name in enumerate(watch.groups.names)
    ]


def needed(starts: Starts, p: Floats) -> Floats:
    """Return the score whose chance, over all starts, is *p*; the tail of a normal near it."""
    score = np.full(len(starts.score), _NEAR)
    for _ in range(2):
        more = 2 * np.log(np.maximum(chance(score, starts.share, starts.enough), 1e-300) / p)
        score = np.sqrt(np.maximum(score**2 + more, 1.0))
    return score


def _finite(factor: float) -> float | None:
    return float(factor) if np.isfinite(factor) else None


LATEST_DAYS = 7  #: that have to hold the change still; whole weeks, so that weekdays do not matter
_FEWEST_RECENT = 4
_FEWEST_BASELINE = 8


@dataclass(frozen=True, slots=True)
class _Comparison:
    """An open series since its onset, or in its latest days alone."""

    change: Change
    score: float


def followed(window: Window, groups: Groups, options: Options, memory: Memory) -> Iterator[Finding]:
    """Yield what is left of each open series, if there are values enough to tell."""
    known = set(subjects_of(window.sample))
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
    whole = _compared(window, groups, series, baseline, recent)
    if whole is None:
        return None
    latest = _compared(window, groups, series, baseline, recent[-LATEST_DAYS:]) or whole
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


def _compared(
    window: Window, groups: Groups, series: Series, baseline: Ints, recent: Ints
) -> _Comparison | None:
    """Compare days of the sample; None where they have too few values."""
    place = groups.place(series.cohort)
    if place is None or not len(baseline) or not len(recent):
        return None
    found = series_model(series.subject, window.beside(baseline, recent), groups, Memory())
    change = found.change(place, len(baseline), found.days)
    if change.after.n < _FEWEST_RECENT or change.before.n < _FEWEST_BASELINE:
        return None
    return _Comparison(change, found.since(place, len(baseline)).score)


def scan(sample: Sample, options: Options, memory: Memory) -> Scan:
    """Look at all of *sample*."""
    window = Window.of(sample, options)
    if not window.baseline or not sample.cohorts:
        return Scan((), (), 0)
    places = groups(sample.cohorts)
    looks = _looks(window, places, options, memory)
    series = sum(int(look.tested.sum()) for look in looks)
    bars = _bars(looks, options)
    candidates = [
        found
        for look, bar in zip(looks, bars, strict=True)
        for found in candidates(look, bar, options)
    ]
    found = _judged(candidates, Unchanged(window, places, memory), series, window, options)
    still = tuple(followed(window, places, options, memory))
    known = {one: frozen.onset_us for one, frozen in memory.open.items()}
    fresh = without_explained(
        (one for one in found if one.series not in memory.open), known, memory.accepted
    )
    fresh += mixes(window, looks, series, options)
    findings = sorted(fresh, key=lambda one: (one.p, one.series))
    told = [
        power
        for look, bar in zip(looks, bars, strict=True)
        for power in powers(look, bar.weight * options.q / max(series, 1), options)
    ]
    return Scan((*findings, *still), tuple(told), series)


@dataclass(frozen=True)
class Unchanged:
    """Watches in which nothing was taken off, made once they are asked for."""

    window: Window
    groups: Groups
    memory: Memory
    made: dict[Subject, SeriesModel] = field(default_factory=dict)

    def beside(self, candidate: Candidate) -> Iterator[SeriesModel]:
        """Yield the watches that time of the candidate's subject may have moved to or from."""
        for subject in subjects_of(self.window.sample):
            if are_beside(subject, candidate.watch.subject):
                yield self._of(subject)

    def phases(self) -> Iterator[SeriesModel]:
        """Yield the watches of all phases."""
        for subject in subjects_of(self.window.sample):
            if subject.metric is Metric.PHASE_SECONDS:
                yield self._of(subject)

    def _of(self, subject: Subject) -> SeriesModel:
        if subject not in self.made:
            self.made[subject] = series_model(subject, self.window, self.groups, self.memory)
        return self.made[subject]


def _looks(window: Window, places: Groups, options: Options, memory: Memory) -> list[Scores]:
    return [
        Scores.at(
            _without_open(series_model(subject, window, places, memory), window, memory), options
        )
        for subject in subjects_of(window.sample)
    ]


def _without_open(found: SeriesModel, window: Window, memory: Memory) -> SeriesModel:
    """Take off what is known to have changed, so that it is found in no other cohort."""
    for series, frozen in sorted(memory.open.items()):
        group = found.groups.place(series.cohort)
        start = window.day_of(frozen.onset_us) - (window.sample.days - window.days)
        if series.subject == found.subject and group is not None and 0 < start < window.days:
            found = found.shifted(group, start, window.days)
    return found


def _bars(looks: Sequence[Scores], options: Options) -> list[Bar]:
    """Share out the chance of false findings over all series of all watches."""
    tested = [look.tested for look in looks]
    promise = [look.watch.promise(WORTH)[used] for look, used in zip(looks, tested, strict=True)]
    priors = [
        np.full(len(told), prior(look.watch.subject))
        for look, told in zip(looks, promise, strict=True)
    ]
    shared = weights(
        np.concatenate([np.ones(0), *promise]), np.concatenate([np.ones(0), *priors]), options.q
    )
    by_look = np.split(shared, np.cumsum([int(used.sum()) for used in tested]))[:-1]
    limits = {}
    for sign in (WORSE, BETTER):
        chances = [look.of(sign).p[used] for look, used in zip(looks, tested, strict=True)]
        limits[sign] = limit(np.concatenate([np.ones(0), *chances]) / shared, options.q)
    bars = []
    for used, own in zip(tested, by_look, strict=True):
        weight = np.ones(len(used))
        weight[used] = own
        bars.append(Bar(weight, limits))
    return bars


def _judged(
    candidates: Sequence[Candidate],
    unchanged: Unchanged,
    series: int,
    window: Window,
    options: Options,
) -> Iterator[Finding]:
    for same in _alike(candidates):
        chances = adjusted([one.weighted for one in same], series)
        for candidate, q in zip(same, chances, strict=True):
            if q <= options.q:
                others = unchanged.beside(candidate)
                relabelled = candidate.lasting.lasts and is_relabelled(candidate, others)
                context = Context(q, is_outage_like(candidate, unchanged.phases()), relabelled)
                finding = finding_of(candidate, context, window, options)
                if passes(finding):
                    yield finding


def _alike(candidates: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    """Yield candidates by direction, those that last apart from incidents."""
    by_kind: dict[tuple[int, bool], list[Candidate]] = {}
    for one in candidates:
        by_kind.setdefault((one.sign, one.lasting.lasts), []).append(one)
    yield from by_kind.values()
