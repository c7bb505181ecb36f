"""Finds what changed for good: a scan over every subject, every cohort and every day of onset.

See ``docs/design/0015-detector.md``. Deterministic: the same sample, options and memory give the
same answer, whatever the order of cohorts and rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ett_service.core.regression import Finding, Metric, Subject
from ett_service.detection.margins import Groups, groups
from ett_service.detection.mix import mixes
from ett_service.detection.multiplicity import adjusted, limit
from ett_service.detection.naming import are_beside, is_outage_like, is_relabelled, told_once
from ett_service.detection.options import Memory, Options, Scan
from ett_service.detection.power import powers
from ett_service.detection.pursuit import BETTER, WORSE, Bar, Candidate, Look, pursue
from ett_service.detection.sample import Sample
from ett_service.detection.still_open import followed
from ett_service.detection.verdict import Context, is_told, judged
from ett_service.detection.watch import Watch
from ett_service.detection.watching import subjects, watch
from ett_service.detection.weights import WORTH, prior, weights
from ett_service.detection.window import Window


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
        found for look, bar in zip(looks, bars, strict=True) for found in pursue(look, bar, options)
    ]
    found = _judged(candidates, Unchanged(window, places, memory), series, window, options)
    still = tuple(followed(window, places, options, memory))
    known = {one: frozen.onset_us for one, frozen in memory.open.items()}
    fresh = told_once(
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
    made: dict[Subject, Watch] = field(default_factory=dict)

    def beside(self, candidate: Candidate) -> Iterator[Watch]:
        """Yield the watches that time of the candidate's subject may have moved to or from."""
        for subject in subjects(self.window.sample):
            if are_beside(subject, candidate.watch.subject):
                yield self._of(subject)

    def phases(self) -> Iterator[Watch]:
        """Yield the watches of all phases."""
        for subject in subjects(self.window.sample):
            if subject.metric is Metric.PHASE_SECONDS:
                yield self._of(subject)

    def _of(self, subject: Subject) -> Watch:
        if subject not in self.made:
            self.made[subject] = watch(subject, self.window, self.groups, self.memory)
        return self.made[subject]


def _looks(window: Window, places: Groups, options: Options, memory: Memory) -> list[Look]:
    return [
        Look.at(_without_open(watch(subject, window, places, memory), window, memory), options)
        for subject in subjects(window.sample)
    ]


def _without_open(found: Watch, window: Window, memory: Memory) -> Watch:
    """Take off what is known to have changed, so that it is found in no other cohort."""
    for series, frozen in sorted(memory.open.items()):
        group = found.groups.place(series.cohort)
        start = window.day_of(frozen.onset_us) - (window.sample.days - window.days)
        if series.subject == found.subject and group is not None and 0 < start < window.days:
            found = found.shifted(group, start, window.days)
    return found


def _bars(looks: Sequence[Look], options: Options) -> list[Bar]:
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
                finding = judged(candidate, context, window, options)
                if is_told(finding):
                    yield finding


def _alike(candidates: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    """Yield candidates by direction, those that last apart from incidents."""
    by_kind: dict[tuple[int, bool], list[Candidate]] = {}
    for one in candidates:
        by_kind.setdefault((one.sign, one.lasting.lasts), []).append(one)
    yield from by_kind.values()
