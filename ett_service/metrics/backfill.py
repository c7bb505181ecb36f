"""The past of the fleet's counters, as OpenMetrics text with a timestamp on each sample.

Prometheus makes blocks of it. Every series of a cluster and cohort begins at 0, one step before
its first increase, so that no increase is missed.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TypeAlias

from ett_service.core.fleet.counter_history import Moves, Steps
from ett_service.core.fleet.counters import BOUNDS_US, OF_A_CLUSTER, family_of
from ett_service.core.intervals import SECOND_US
from ett_service.core.words import OTHER
from ett_service.metrics.families import (
    COUNTERS,
    END,
    Family,
    Kind,
    TextFormat,
    head,
    labelled,
    number,
)
from ett_service.storage.metrics.labels import LabelLimits, ShownLabels

Labels: TypeAlias = tuple[str, str]
"""Cluster and cohort; the cohort is empty for families without that label."""

_Moved: TypeAlias = defaultdict[str, defaultdict[int, int]]

_PAID = "phase_weighted_seconds:"
_WALL = "phase_seconds:"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is written: samples from *from_at* on, with *labels* on each.

    *steps* are whole seconds.
    """

    steps: Steps
    from_at: int
    labels: Mapping[str, str]
    cohort_histograms: bool = True


class Past:
    """The increases of the counters at each step, by cluster and cohort."""

    def __init__(self) -> None:
        self._moved: dict[Labels, _Moved] = {}

    def add(self, labels: Labels, moves: Moves) -> None:
        """Add the increases of one or several jobs."""
        for key, by_step in moves.items():
            series = (labels[0], "") if family_of(key) in OF_A_CLUSTER else labels
            moved = self._moved.setdefault(series, _no_moves())[key]
            for at, amount in by_step.items():
                moved[at] += amount

    def fold(self, limits: LabelLimits, live: ShownLabels) -> None:
        """Count clusters and cohorts beyond *limits* under ``other``.

        Those that the *live* page shows keep their names, then those with the most GPU time.
        """
        clusters = _largest(self._weights(0), limits.clusters, live.clusters)
        cohorts = _largest(self._weights(1), limits.cohorts, live.cohorts) | {""}
        before, self._moved = self._moved, {}
        for (cluster, cohort), moved in before.items():
            shown = (
                cluster if cluster in clusters else OTHER,
                cohort if cohort in cohorts else OTHER,
            )
            self.add(shown, moved)

    @property
    def first_at(self) -> int | None:
        """The first increase; None if there is none."""
        return min(
            (at for moved in self._moved.values() for by_step in moved.values() for at in by_step),
            default=None,
        )

    def text(self, scope: Scope) -> Iterator[str]:
        """Yield the text in pieces, to its last line."""
        reads = _reads(scope.steps, self.first_at)
        shown = {
            labels: _Lines(moved, reads, scope) for labels, moved in sorted(self._moved.items())
        }
        for family in COUNTERS:
            yield head(family, TextFormat.OPENMETRICS)
            for labels, lines in shown.items():
                if bool(labels[1]) == family.of_cohorts:
                    yield from lines.lines(family, labels)
        yield END

    def _weights(self, place: int) -> dict[str, tuple[int, int]]:
        """Return GPU time and wall time by the values of a label."""
        paid: defaultdict[str, int] = defaultdict(int)
        wall: defaultdict[str, int] = defaultdict(int)
        for labels, moved in self._moved.items():
            for key, by_step in moved.items():
                if key.startswith(_WALL):
                    wall[labels[place]] += sum(by_step.values())
                elif key.startswith(_PAID) and key.endswith("/true"):
                    paid[labels[place]] += sum(by_step.values())
        return {value: (paid[value], us) for value, us in wall.items()}


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
        """Yield the samples of a family, series by series, each in the order of time."""
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
        """Return the labels behind cluster and cohort: the known ones, and those with increases."""
        series = dict.fromkeys(family.initial)
        for key in sorted(self._moved):
            name, _, own = key.partition("#")[0].partition(":")
            if name == family.key:
                series[tuple(own.split("/")) if own else ()] = None
        return list(series)

    def _counter(self, family: Family, key: str, values: Iterable[str]) -> str:
        name = f"{family.name}{self._labelled(family.labels, values)} "
        unit = SECOND_US if family.is_seconds else None
        samples = zip(self._values(key), self._stamps, strict=True)
        return "".join(
            [f"{name}{value / unit if unit else value!r}{stamp}" for value, stamp in samples]
        )

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
    """Return the instants of all samples, the first of them one step before *first_at*."""
    if first_at is None:
        return []
    step_us, last_at = steps
    before = (first_at - 1) // step_us * step_us
    instants = list(range(before, last_at + 1, step_us))
    return instants if instants[-1] == last_at else [*instants, last_at]


def _largest(weights: Mapping[str, tuple[int, int]], most: int, first: Container[str]) -> set[str]:
    def order(value: str) -> tuple[bool, int, int, str]:
        paid_us, wall_us = weights[value]
        return value not in first, -paid_us, -wall_us, value

    return set(sorted(weights, key=order)[:most])


def _no_moves() -> _Moved:
    return defaultdict(lambda: defaultdict(int))
