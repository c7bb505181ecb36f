"""The past of the fleet's counters, as OpenMetrics text with a timestamp on each sample.

A Prometheus makes blocks of it. Every series of a cluster and cohort begins at 0, one step before
anything of theirs was counted, so that no increase is missed.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TypeAlias

from ett_service.core.fleet.counter_history import Moves, Steps
from ett_service.core.fleet.counters import BOUNDS_US, OF_A_CLUSTER, family_of
from ett_service.core.intervals import SECOND_US
from ett_service.core.words import OTHER
from ett_service.metrics.families import COUNTERS, Family, Kind
from ett_service.metrics.text import END, TextFormat, head, labelled, number
from ett_service.storage.metrics.labels import LabelLimits, ShownLabels

Labels: TypeAlias = tuple[str, str]
"""Cluster and cohort; the cohort is empty where a family does not tell cohorts apart."""

_Moved: TypeAlias = defaultdict[str, defaultdict[int, int]]

_PAID = "phase_weighted_seconds:"
_WALL = "phase_seconds:"


@dataclass(frozen=True, slots=True)
class Scope:
    """What of the past is written: samples from *from_at* on, with *labels* on each.

    *steps* are of whole seconds.
    """

    steps: Steps
    from_at: int
    labels: Mapping[str, str]
    cohort_histograms: bool = True


class Past:
    """How much the counters moved at each step, by cluster and cohort."""

    def __init__(self) -> None:
        self._moved: dict[Labels, _Moved] = {}

    def add(self, labels: Labels, moves: Moves) -> None:
        """Add what one job, or several, moved."""
        for key, by_step in moves.items():
            own = (labels[0], "") if family_of(key) in OF_A_CLUSTER else labels
            moved = self._moved.setdefault(own, _nothing())[key]
            for at, amount in by_step.items():
                moved[at] += amount

    def fold(self, most: LabelLimits, live: ShownLabels) -> None:
        """Put clusters and cohorts that are too many under ``other``.

        Those that the *live* page shows keep their names, then those with the most GPU time.
        """
        clusters = _kept(self._weights(0), most.clusters, live.clusters)
        cohorts = _kept(self._weights(1), most.cohorts, live.cohorts) | {""}
        before, self._moved = self._moved, {}
        for (cluster, cohort), moved in before.items():
            shown = (
                cluster if cluster in clusters else OTHER,
                cohort if cohort in cohorts else OTHER,
            )
            self.add(shown, moved)

    @property
    def first_at(self) -> int | None:
        """When anything was first counted; None where nothing was."""
        return min(
            (at for moved in self._moved.values() for of in moved.values() for at in of),
            default=None,
        )

    def text(self, scope: Scope) -> Iterator[str]:
        """Yield the text, piece by piece, to its last line."""
        reads = _reads(scope.steps, self.first_at)
        shown = {labels: _Lines(moved, reads, scope) for labels, moved in self._sorted()}
        for family in COUNTERS:
            yield head(family, TextFormat.OPENMETRICS)
            for labels, of in shown.items():
                if bool(labels[1]) == ("cohort" in family.labels):
                    yield from of.lines(family, labels)
        yield END

    def _sorted(self) -> list[tuple[Labels, _Moved]]:
        return sorted(self._moved.items())

    def _weights(self, place: int) -> dict[str, tuple[int, int]]:
        """Return by the words of a label its GPU time, and its wall time."""
        paid: defaultdict[str, int] = defaultdict(int)
        wall: defaultdict[str, int] = defaultdict(int)
        for labels, moved in self._moved.items():
            for key, by_step in moved.items():
                if key.startswith(_WALL):
                    wall[labels[place]] += sum(by_step.values())
                elif key.startswith(_PAID) and key.endswith("/true"):
                    paid[labels[place]] += sum(by_step.values())
        return {word: (paid[word], us) for word, us in wall.items()}


class _Lines:
    """The lines of one cluster and cohort."""

    def __init__(self, moved: _Moved, reads: Sequence[int], scope: Scope) -> None:
        self._moved = moved
        self._scope = scope
        first_at = min(at for by_step in moved.values() for at in by_step)
        begins = max(0, reads.index(first_at) - 1)
        self._reads = reads[begins:]
        self._stamps = [f" {at // SECOND_US}\n" for at in self._reads if at >= scope.from_at]

    def lines(self, family: Family, labels: Labels) -> Iterator[str]:
        """Yield the samples of a family, series by series and each in the order of time."""
        shared = labels if labels[1] else labels[:1]
        if family.kind is Kind.HISTOGRAM and labels[1] and not self._scope.cohort_histograms:
            return
        for own in self._series(family):
            key = family.series(own)
            if family.kind is Kind.HISTOGRAM:
                yield from self._histogram(family, key, (*shared, *own))
            else:
                yield self._counter(family, key, (*shared, *own))

    def _series(self, family: Family) -> list[tuple[str, ...]]:
        """Return the labels behind cluster and cohort: those known beforehand, and those seen."""
        seen = dict.fromkeys(family.known)
        for key in sorted(self._moved):
            name, _, own = key.partition("#")[0].partition(":")
            if name == family.key:
                seen[tuple(own.split("/")) if own else ()] = None
        return list(seen)

    def _counter(self, family: Family, key: str, values: Iterable[str]) -> str:
        shown = _shower(family)
        name = f"{family.name}{self._labelled(family.labels, values)} "
        values_at = zip(self._values(key), self._stamps, strict=True)
        return "".join([f"{name}{shown(value)}{stamp}" for value, stamp in values_at])

    def _histogram(self, family: Family, key: str, values: Sequence[str]) -> Iterator[str]:
        bounds = (*(number(bound_us / SECOND_US) for bound_us in BOUNDS_US[family.key]), "+Inf")
        whole = self._labelled(family.labels, values)
        names = [
            f"{family.name}_bucket{self._labelled((*family.labels, 'le'), (*values, bound))} "
            for bound in bounds
        ]
        names += [f"{family.name}_count{whole} ", f"{family.name}_sum{whole} "]
        buckets = zip(
            *(self._values(f"{key}#{place}") for place in range(len(bounds))), strict=True
        )
        sums_us = self._values(f"{key}#us")
        for counts, sum_us, stamp in zip(buckets, sums_us, self._stamps, strict=True):
            below = list(accumulate(counts))
            row = (*below, below[-1], sum_us / SECOND_US)
            yield "".join(
                [f"{name}{value!r}{stamp}" for name, value in zip(names, row, strict=True)]
            )

    def _values(self, key: str) -> Iterator[int]:
        """Yield the counter's value at each instant that is written."""
        by_step: Mapping[int, int] = self._moved.get(key, {})
        values = accumulate(by_step.get(at, 0) for at in self._reads)
        return islice(values, len(self._reads) - len(self._stamps), None)

    def _labelled(self, names: Iterable[str], values: Iterable[str]) -> str:
        more = self._scope.labels
        return labelled((*more, *names), (*more.values(), *values))


def _reads(steps: Steps, first_at: int | None) -> list[int]:
    """Return the instants of all samples, the first one step before *first_at*."""
    if first_at is None:
        return []
    step_us, last_at = steps
    before = (first_at - 1) // step_us * step_us
    found = list(range(before, last_at + 1, step_us))
    return found if found[-1] == last_at else [*found, last_at]


def _kept(weights: Mapping[str, tuple[int, int]], most: int, first: Container[str]) -> set[str]:
    def order(word: str) -> tuple[bool, int, int, str]:
        paid_us, wall_us = weights[word]
        return word not in first, -paid_us, -wall_us, word

    return set(sorted(weights, key=order)[:most])


def _shower(family: Family) -> Callable[[int], str]:
    if family.key.endswith("_seconds"):
        return lambda us: repr(us / SECOND_US)
    return repr


def _nothing() -> _Moved:
    return defaultdict(lambda: defaultdict(int))
