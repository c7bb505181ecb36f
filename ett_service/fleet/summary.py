"""The fleet over a window: what its accelerators' time went into, by group."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Literal

from scipy.special import gammainccinv, gammaincinv
from sqlalchemy import Connection

from ett_service.core.fleet.totals import Loss, PreemptionOrder, Totals
from ett_service.core.words import Category
from ett_service.fleet.economy import Cost, Economy, Part, Productivity, productivity
from ett_service.fleet.scope import Scope, Window
from ett_service.fleet.uncertainty import CONFIDENCE
from ett_service.storage.fleet import rollups
from ett_service.storage.fleet.preemptions import losses
from ett_service.storage.fleet.rollups import JOBS, RollupPlace


def poisson_interval(count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the lowest and highest expected number of events that *count* seen ones allow.

    The exact interval of Garwood (Biometrika 28, 1936): quantiles of the chi-square distribution
    with ``2 n`` and ``2 n + 2`` degrees of freedom, halved, which are those of the gamma
    distribution with the shapes ``n`` and ``n + 1``. Raises ValueError for a negative count or a
    confidence that is not between 0 and 1.
    """
    if count < 0 or not 0 < confidence < 1:
        raise ValueError("a count from 0 and a confidence between 0 and 1 are needed")
    tail = (1 - confidence) / 2
    low = float(gammaincinv(count, tail)) if count else 0.0
    return low, float(gammainccinv(count + 1, tail))


@dataclass(frozen=True, slots=True)
class TimeBetween:
    """Mean time between failures, in microseconds, with its interval.

    Without a failure there is only a lower bound; without any time there is nothing.
    """

    failures: int
    us: float | None
    low_us: float | None
    high_us: float | None
    confidence: float = CONFIDENCE


def time_between(failures: int, exposed_us: int) -> TimeBetween:
    """Divide the time in which failures could happen by how many did.

    The interval is exact as long as failures come independently, at one rate.
    """
    if not exposed_us:
        return TimeBetween(failures, None, None, None)
    fewest, most = poisson_interval(failures)
    return TimeBetween(
        failures,
        exposed_us / failures if failures else None,
        exposed_us / most,
        exposed_us / fewest if fewest else None,
    )


@dataclass(frozen=True, slots=True)
class Preemption:
    """Losses by order; an order without any is absent."""

    losses: Mapping[PreemptionOrder, Loss] = field(default_factory=dict)

    def of(self, order: PreemptionOrder) -> Loss:
        """Return what was lost to preemptions of this order."""
        return self.losses.get(order, Loss())

    def plus(self, other: "Preemption") -> "Preemption":
        """Put both together."""
        orders = self.losses.keys() | other.losses.keys()
        return Preemption({order: self.of(order).plus(other.of(order)) for order in orders})


NOTHING_LOST = Preemption()


def preemptions(
    conn: Connection,
    scope: Scope,
    window: Window,
    places: Collection[RollupPlace],
    step: int | None = None,
) -> dict[RollupPlace, Preemption]:
    """Return the losses to preemption of a window by place, of each of *places*.

    They are read from the attempts themselves, which know their cohort even where the cap on
    cohorts put its time into ``other``: what has no place of its own goes there.
    """
    by_place: defaultdict[RollupPlace, Preemption] = defaultdict(Preemption)
    each = losses(conn, scope.cohorts, window, scope.group_by, step)
    for ((bucket, labels), order), loss in each.items():
        place = (bucket, (*labels, "") if scope.group_by else ())
        if place not in places:
            place = (bucket, _other(scope, labels))
        by_place[place] = by_place[place].plus(Preemption({order: loss}))
    return by_place


def _other(scope: Scope, labels: Sequence[str]) -> tuple[str, ...]:
    """Name the group of what the cap left over; of all labels it has kept the project."""
    if not scope.group_by:
        return ()
    project = (
        label if name == "project" else ""
        for name, label in zip(scope.group_by, labels, strict=True)
    )
    return (*project, "1")


GroupOrder = Literal["weighted", "lost", "name"]

_PRICED_BY = ("hardware", "precision")


@dataclass(frozen=True)
class Group:
    """The totals of a group of cohorts in a stretch of time, and what they are measured by."""

    labels: Mapping[str, str]  #: by dimension that was grouped by; ``""`` is unknown
    other: bool  #: whether it is what the cap on cohorts left over
    parts: Sequence[Part]
    counted: Totals  #: the tallies; empty where they were not asked for
    preemption: Preemption
    economy: Economy
    where: Mapping[str, str]  #: labels that every cohort has because of the question

    @cached_property
    def totals(self) -> Totals:
        """Everything added up."""
        return reduce(add, (part.totals for part in self.parts), self.counted)

    @property
    def jobs(self) -> int:
        """How many jobs lived in this time."""
        return self.totals[JOBS]

    @cached_property
    def cost(self) -> Cost:
        """What the time cost."""
        return self.economy.cost(self.parts)

    @cached_property
    def productivity(self) -> Productivity:
        """What the time brought."""
        return productivity(self.parts, self.economy)

    @property
    def target(self) -> float | None:
        """The ETT% that is aimed at."""
        labels = self.where if self.other else {**self.where, **self.labels}
        return self.economy.target(labels)

    @property
    def distance(self) -> float | None:
        """ETT% minus the target; None without a target or without weighted time."""
        if self.target is None or not self.totals.weighted_us:
            return None
        return self.totals.ett_ratio - self.target

    @property
    def between_failures(self) -> TimeBetween:
        """Running time of jobs between two failures of any kind."""
        return time_between(self.totals["failures"], self._running_us)

    @property
    def between_infra_failures(self) -> TimeBetween:
        """Running time of jobs between two infra failures."""
        return time_between(self.totals["infra_failures"], self._running_us)

    @property
    def _running_us(self) -> int:
        waiting = (Category.SCHEDULING, Category.RESTART_WAIT)
        return self.totals.e2e_us - sum(map(self.totals.category_us, waiting))


@dataclass(frozen=True)
class Summary:
    """All of it, and by group."""

    total: Group
    groups: Sequence[Group]  #: empty where nothing was grouped by
    other_cohorts: int  #: cohorts whose time cannot be told apart any more


def summary(
    conn: Connection,
    scope: Scope,
    window: Window,
    economy: Economy,
    *,
    order: GroupOrder = "weighted",
    distributions: bool = True,
    group_distributions: bool = True,
) -> Summary:
    """Add up a window, in all and by the groups of *scope*, the largest first.

    Without *group_distributions* only the total has the *distributions*, which are read sooner.
    """
    of_groups = distributions and (group_distributions or not scope.group_by)
    by_place = groups(conn, scope, window, economy, distributions=of_groups)
    chosen = list(by_place.values())
    total = together(chosen, scope, economy)
    if distributions and not of_groups:
        counted = rollups.distributions(conn, scope.cohorts, window)
        total = replace(total, counted=counted.get((None, ()), Totals.ZERO))
    other_cohorts = rollups.cohorts_in_other(conn, scope.cohorts, window)
    shown = sorted(chosen, key=_RANKS[order]) if scope.group_by else []
    return Summary(total, shown, other_cohorts)


def groups(
    conn: Connection,
    scope: Scope,
    window: Window,
    economy: Economy,
    *,
    step: int | None = None,
    distributions: bool = True,
) -> dict[rollups.RollupPlace, Group]:
    """Add up a window by group, and by step where one is given (``rollups.totals``).

    The labels of the keys are those of *scope*, and behind them that of ``other``.
    """
    grouped = (*scope.group_by, "other") if scope.group_by else ()
    parts = _parts(conn, scope, window, economy, grouped, step)
    question = (conn, scope.cohorts, window, grouped, step)
    counted = rollups.distributions(*question) if distributions else {}
    # The sums tell whether there is any: without one no attempt is read.
    preempted = any(part.totals["preemptions"] for each in parts.values() for part in each)
    lost = preemptions(conn, scope, window, parts.keys(), step) if preempted else {}
    return {
        place: Group(
            labels=dict(zip(scope.group_by, place[1], strict=False)),
            other=bool(grouped) and bool(place[1][-1]),
            parts=parts[place],
            counted=counted.get(place, Totals.ZERO),
            preemption=lost.get(place, NOTHING_LOST),
            economy=economy,
            where=scope.constant_labels,
        )
        for place in parts
    }


def together(members: Iterable[Group], scope: Scope, economy: Economy) -> Group:
    """Put groups together to one; without any it is one of no time."""
    members = list(members)
    return Group(
        labels={},
        other=False,
        parts=[part for group in members for part in group.parts],
        counted=reduce(add, (group.counted for group in members), Totals.ZERO),
        preemption=reduce(Preemption.plus, (group.preemption for group in members), NOTHING_LOST),
        economy=economy,
        where=scope.constant_labels,
    )


def _parts(
    conn: Connection,
    scope: Scope,
    window: Window,
    economy: Economy,
    grouped: tuple[str, ...],
    step: int | None,
) -> dict[rollups.RollupPlace, list[Part]]:
    cuts = economy.cuts(*window)
    begins = [window.from_us, *cuts]
    added = [name for name in _PRICED_BY if name not in grouped]
    names = (*grouped, *added)
    hardware, precision = map(names.index, _PRICED_BY)
    by_place = rollups.totals(conn, scope.cohorts, window, names, step, tallies=False, cuts=cuts)
    parts: defaultdict[rollups.RollupPlace, list[Part]] = defaultdict(list)
    for (bucket, labels), totals in by_place.items():
        at_us = begins[int(labels[len(names)])] if cuts else window.from_us
        part = Part(labels[hardware], labels[precision], at_us, totals)
        parts[bucket, labels[: len(grouped)]].append(part)
    return parts


_Rank = Callable[[Group], tuple[bool, int, tuple[str, ...]]]
_RANKS: dict[GroupOrder, _Rank] = {
    "weighted": lambda group: (group.other, -group.totals.weighted_us, (*group.labels.values(),)),
    "lost": lambda group: (group.other, -group.totals.lost_weighted_us, (*group.labels.values(),)),
    "name": lambda group: (group.other, 0, (*group.labels.values(),)),
}
