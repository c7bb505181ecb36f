"""The scan: every subject, every cohort and every day of onset."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from scipy.special import ndtr

from ett_service.core.intervals import DAY_US
from ett_service.core.regressions.finding import (
    Finding,
    Gate,
    Metric,
    Series,
    SeriesCohort,
    Subject,
    Verdict,
)
from ett_service.detection.mix import mix_changes
from ett_service.detection.models import METRICS
from ett_service.detection.models.series_model import (
    Z_80,
    Change,
    SeriesModel,
    with_usual_days,
)
from ett_service.detection.panel import Starts
from ett_service.detection.sample import Floats, FrozenBaseline, Ints, Memory, Options, Sample
from ett_service.detection.selection import (
    BETTER,
    WORSE,
    Candidate,
    Scores,
    adjusted,
    began_earlier,
    candidates,
    gone,
    thresholds,
)
from ett_service.detection.verdict import (
    Context,
    beside_outages,
    can_exchange_time,
    finding_of,
    is_outage_like,
    is_relabelled,
    of_cost,
    of_metric,
    passes,
    without_explained,
)
from ett_service.detection.window import Groups, Window, groups

LATEST_DAYS = 7  #: that must still hold the change; whole weeks, so that weekdays do not matter

_FEWEST_RECENT = 4
_FEWEST_BASELINE = 8
_FIRST_GUESS = 3.8  #: of the score that a power asks for


@dataclass(frozen=True, slots=True)
class Power:
    """The smallest change that a search could find in a cohort: silence is not health."""

    subject: Subject
    cohort: SeriesCohort
    recent: int  #: values in the recent window
    baseline: int
    smallest: float | None  #: the factor found in 80 of 100 cases; None: nothing could be found


@dataclass(frozen=True, slots=True)
class Scan:
    """The answer of one scan; no finding of it depends on earlier runs.

    Each series that the memory follows has a finding, whose ``holds`` says whether the change
    is still there, or none where there are too few values.
    """

    findings: tuple[Finding, ...]
    power: tuple[Power, ...]
    series: int  #: how many were tested
    gone: tuple[Series, ...] = ()  #: open ones of whose cohort nothing ran in the recent days
    standing: tuple[Series, ...] = ()
    """Pending ones that were not found, though nothing shows that their change is over."""


def scan(sample: Sample, options: Options, memory: Memory) -> Scan:
    """Search all of *sample*."""
    window = Window.of(sample, options)
    over = gone(sample, memory.followed, options.recent_days)
    if not window.baseline or not sample.cohorts:
        return Scan((), (), 0, over)
    models = Models.of(window, groups(sample.cohorts), memory)
    scores = [Scores.of(model, options) for model in models.without_open()]
    series = sum(int(of_model.tested.sum()) for of_model in scores)
    limits = thresholds(scores, options.q)
    changes = beside_outages(
        [
            candidate
            for of_model, threshold in zip(scores, limits, strict=True)
            for candidate in candidates(of_model, threshold, options)
        ],
        window.outages(models.groups, memory),
    )
    by_finding = dict(_findings(changes, models, series, options))
    findings = without_explained(
        (finding for finding in _surest(by_finding) if not _is_followed(finding, memory)),
        {series: frozen.onset_us for series, frozen in memory.explaining.items()},
        memory.accepted,
    )
    findings = [finding for finding in findings if not _began_earlier(by_finding[finding], options)]
    findings += mix_changes(window, scores, series, options)
    findings.sort(key=lambda finding: (finding.p, finding.series))
    power = [
        power
        for of_model, threshold in zip(scores, limits, strict=True)
        for power in powers(of_model, threshold.weight * options.q / max(series, 1), options)
    ]
    found = {each.series for each in findings}
    worse = {each.series for each in findings if each.verdict is Verdict.REGRESSION}
    return Scan(
        (*findings, *followed(models, options, worse)),
        tuple(power),
        series,
        over,
        tuple(standing(models, options, found)),
    )


def _is_followed(finding: Finding, memory: Memory) -> bool:
    """Whether what fires reports a finding; what is small does not report another verdict."""
    is_small = finding.verdict is Verdict.SMALL and finding.series in memory.small
    return is_small or finding.series in memory.open


@dataclass(frozen=True)
class Models:
    """The models of a window's subjects, which share what they say of days."""

    window: Window
    groups: Groups
    memory: Memory
    by_subject: Mapping[Subject, SeriesModel]

    @classmethod
    def of(cls, window: Window, groups: Groups, memory: Memory) -> "Models":
        """Make the model of each subject."""

        def made(in_bursts: bool) -> Iterator[SeriesModel]:
            for subject in window.sample.subjects:
                metric = METRICS[subject.metric]
                if metric.in_bursts == in_bursts:
                    yield metric.model(subject, window, groups, memory)

        models = chain(with_usual_days(made(in_bursts=False)), made(in_bursts=True))
        return cls(window, groups, memory, {model.subject: model for model in models})

    def phases(self) -> Iterator[SeriesModel]:
        """Yield the models of all phases."""
        for subject in self.window.sample.subjects:
            if subject.metric is Metric.PHASE_SECONDS:
                yield self.by_subject[subject]

    def exchanging_with(self, candidate: Candidate) -> Iterator[SeriesModel]:
        """Yield the models that time of the candidate's subject may have moved to or from."""
        for subject in self.window.sample.subjects:
            if can_exchange_time(subject, candidate.model.subject):
                yield self.by_subject[subject]

    def without_open(self) -> Iterator[SeriesModel]:
        """Yield each model without the open findings, so that no other cohort shows them."""
        for subject in self.window.sample.subjects:
            yield from map(self._without_open, self.by_subject[subject].all_levels())

    def _without_open(self, model: SeriesModel) -> SeriesModel:
        window, subject = self.window, model.subject
        for series, frozen in sorted(self.memory.explaining.items()):
            group = self.groups.place(series.cohort)
            start = window.day_of(frozen.onset_us) - (window.sample.days - window.days)
            if series.subject == subject and group is not None and 0 < start < window.days:
                model = model.without_change(group, start, window.days)
        return model


def _findings(
    changes: Sequence[Candidate], models: Models, series: int, options: Options
) -> Iterator[tuple[Finding, Candidate]]:
    for of_kind in _by_kind(changes):
        chances = adjusted([candidate.weighted for candidate in of_kind], series)
        for candidate, q in zip(of_kind, chances, strict=True):
            if q > options.q:
                continue
            others = models.exchanging_with(candidate)
            relabelled = candidate.lasting.lasts and is_relabelled(candidate, others)
            context = Context(q, is_outage_like(candidate, models.phases()), relabelled)
            finding = finding_of(candidate, context, models.window, options)
            if passes(finding):
                yield finding, candidate


def _began_earlier(candidate: Candidate, options: Options) -> bool:
    start, sign = candidate.lasting.start, candidate.sign
    return began_earlier(candidate.model, candidate.group, start, sign, options)


def _surest(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield one finding of each series and verdict: modes may show what all durations show."""
    surest: dict[tuple[Series, Verdict], Finding] = {}
    for finding in findings:
        key = (finding.series, finding.verdict)
        if key not in surest or finding.p < surest[key].p:
            surest[key] = finding
    yield from surest.values()


def _by_kind(changes: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    """Yield candidates by direction, those that last apart from incidents."""
    by_kind: dict[tuple[int, bool], list[Candidate]] = {}
    for candidate in changes:
        by_kind.setdefault((candidate.sign, candidate.lasting.lasts), []).append(candidate)
    yield from by_kind.values()


@dataclass(frozen=True, slots=True)
class _Comparison:
    """An open series since its onset, or in its latest days alone."""

    change: Change
    score: float


def followed(models: Models, options: Options, worse: Collection[Series]) -> Iterator[Finding]:
    """Yield what is left of each series that fires and has enough values.

    Those that this search found *worse* than small are left out: that says it.
    """
    for series, frozen in sorted(models.memory.followed.items()):
        if series.subject not in models.by_subject or series in worse:
            continue
        finding = _followed(models, options, series, frozen)
        if finding is not None:
            yield finding


def standing(models: Models, options: Options, found: Collection[Series]) -> Iterator[Series]:
    """Yield the pending series beside those *found* of which nothing shows that they are well.

    They are well once their latest days hold less than half of the smallest change that counts.
    What began before the recent days is normal by now.
    """
    window = models.window
    edge_us = window.sample.as_of_us - options.recent_days * DAY_US
    for series, frozen in models.memory.pending.items():
        is_searched = series.subject in models.by_subject and series not in found
        if is_searched and frozen.onset_us >= edge_us:
            finding = _followed(models, options, series, frozen)
            if finding is None or finding.holds:
                yield series


def _followed(
    models: Models, options: Options, series: Series, frozen: FrozenBaseline
) -> Finding | None:
    window = models.window
    days = np.arange(window.sample.days)
    baseline = days[window.day_of(frozen.from_us) : max(window.day_of(frozen.to_us), 0)]
    onset = max(window.day_of(frozen.onset_us), window.sample.days - options.recent_days)
    recent = days[max(onset, 0) :]
    sign = BETTER if frozen.verdict is Verdict.IMPROVEMENT else WORSE
    comparisons = _compared(models, series, baseline, recent)
    if not comparisons:
        return None
    surest = int(np.argmax([sign * comparison.score for comparison in comparisons]))
    whole = latest = comparisons[surest]
    of_latest = _compared(models, series, baseline, recent[-LATEST_DAYS:])
    if surest < len(of_latest):
        latest = of_latest[surest]
    now = latest.change.worse if sign == WORSE else 1 / max(latest.change.worse, 1e-9)
    half = 1 + (of_metric(options, series.subject.metric).effect_floor - 1) / 2
    p = float(ndtr(-sign * whole.score))
    before, after = whole.change.before, whole.change.after
    gates: tuple[Gate, ...] = (
        Gate("recent_values", after.n, _FEWEST_RECENT, passed=True),
        Gate("baseline_values", before.n, _FEWEST_BASELINE, passed=True),
        Gate("latest_effect", now, half, passed=now >= half),
    )
    verdict = frozen.verdict
    if verdict is Verdict.SMALL:
        cost = of_cost(whole.change.part, options)
        gates, verdict = (*gates, cost), Verdict.REGRESSION if cost.passed else Verdict.SMALL
    finding = whole.change.finding(series, verdict, frozen.onset_us, gates=gates, p=p, q=p)
    before = replace(before, to_us=window.end_us(int(baseline[-1])))
    return replace(finding, before=before, holds=now >= half)


def _compared(models: Models, series: Series, baseline: Ints, recent: Ints) -> list[_Comparison]:
    """Compare days of the sample, in all levels of the series; none where they have too few values.

    Known changes of other cohorts are taken off: they say nothing of what all share on a day.
    """
    groups, group = models.groups, models.groups.place(series.cohort)
    if group is None or not len(baseline) or not len(recent):
        return []
    window = models.window.beside(baseline, recent)
    model = METRICS[series.subject.metric].model(series.subject, window, groups, Memory())
    comparisons = []
    for levels in model.all_levels():
        alone = _without_others(levels, models, group, window)
        change = alone.change(group, len(baseline), window.days)
        if change.after.n < _FEWEST_RECENT or change.before.n < _FEWEST_BASELINE:
            return []
        comparisons.append(_Comparison(change, alone.since(group, len(baseline)).score))
    return comparisons


def _without_others(model: SeriesModel, models: Models, group: int, window: Window) -> SeriesModel:
    """Take the known changes of cohorts that are apart from a group off a model."""
    memory, members = models.memory, models.groups.members
    known = {**memory.pending, **memory.small, **memory.explaining}
    for other, frozen in sorted(known.items()):
        place = models.groups.place(other.cohort)
        if place is None or other.subject != model.subject:
            continue
        start = int((window.of_sample < window.day_of(frozen.onset_us)).sum())
        is_apart = not members[place] @ members[group]
        if is_apart and 0 < start < window.days:
            model = model.without_change(place, start, window.days)
    return model


def powers(scores: Scores, p: Floats, options: Options) -> list[Power]:
    """Return, for each group, the smallest factor that reaches a chance of *p*."""
    model, options = scores.model, of_metric(options, scores.model.subject.metric)
    factors = model.smallest_factor(needed(scores.starts, p) + Z_80, options)
    recent, baseline = model.num_values()
    return [
        Power(
            subject=model.subject,
            cohort=name,
            recent=int(recent[group]),
            baseline=int(baseline[group]),
            smallest=float(factors[group]) if np.isfinite(factors[group]) else None,
        )
        for group, name in enumerate(model.groups.names)
    ]


def needed(starts: Starts, p: Floats) -> Floats:
    """Return the score of an old start whose chance is *p*; the tail of a normal near it."""
    score = np.full(len(starts.score), _FIRST_GUESS)
    for _ in range(2):
        more = 2 * np.log(np.maximum(starts.chance_of_old(score), 1e-300) / p)
        score = np.sqrt(np.maximum(score**2 + more, 1.0))
    return score
