"""One scrape: the sums of the ledgers by label, with the words of users made safe and few."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, Select

from ett_service.core.vocabulary import Category, Phase
from ett_service.exposition import totals
from ett_service.core.label import OTHER, label

MOST_COHORTS = 50
MOST_CLUSTERS = 20

PHASES = (
    *(phase.value for phase in Phase if phase is not Phase.QUEUED),
    Category.RESTART_WAIT.value,
    Category.UNATTRIBUTED.value,
)
"""Values of the label ``phase``; they partition E2E."""

SILENT = (Phase.TRAIN_LOOP.value, Category.STALLED.value)

DEDUCTIONS = (
    (Phase.TRAIN_LOOP.value, Category.REPEATED_TRAINING.value),
    SILENT,
    (Phase.PT2_COMPILE.value, Category.RECOMPILE.value),
)
"""From which phase later facts move seconds to which category."""

Cohort = tuple[str, str]
"""The labels ``cluster`` and ``cohort``."""


def kept(weights: "dict[str, float]", most: int) -> frozenset[str]:
    """Return the *most* heaviest labels; of two as heavy the first by name."""
    heaviest = sorted(weights, key=lambda name: (-weights[name], name))
    return frozenset(heaviest[:most])


class _Attempt(msgspec.Struct):
    silent_tail_us: int


_ATTEMPT = msgspec.json.Decoder(_Attempt)


@dataclass(slots=True)
class Times:
    """A histogram as sums: cumulative counts by bucket, count, microseconds."""

    below: list[int] = field(default_factory=lambda: [0] * len(totals.BUCKETS_S))
    count: int = 0
    us: int = 0

    def add(self, below: Iterable[int], count: int, us: int) -> None:
        """Add the sums of another histogram."""
        self.below = [mine + more for mine, more in zip(self.below, below, strict=True)]
        self.count += count
        self.us += us


class Scrape:
    """What the database says now, by label."""

    def __init__(self, conn: Connection) -> None:
        shares = conn.execute(totals.PHASES).all()
        self._clusters, self._cohorts = _shown(shares)
        cohorts = {self._cohort(row) for row in shares}
        self.phase_us = {cohort: dict.fromkeys(PHASES, 0) for cohort in sorted(cohorts)}
        self.deducted_us = {cohort: dict.fromkeys(DEDUCTIONS, 0) for cohort in self.phase_us}
        self.running = dict.fromkeys(self.phase_us, 0)
        for row in shares:
            if row.category is not None:
                self._add_share(self._cohort(row), row.phase, row.category, int(row.us))
        for attempt in conn.execute(totals.RUNNING):
            self._add_running(attempt)
        self.failures = self._failures(conn)
        self.starts = self._times(conn, totals.STARTS)
        self.recoveries = self._times(conn, totals.RECOVERIES)

    def _cluster(self, name: str | None) -> str:
        shown = label(name)
        return shown if shown in self._clusters else OTHER

    def _cohort(self, row: Any) -> Cohort:
        model = label(row.model)
        return self._cluster(row.cluster), model if model in self._cohorts else OTHER

    def _add_share(self, cohort: Cohort, phase: str, category: str, us: int) -> None:
        owner = reported_phase(phase, category)
        self.phase_us[cohort][owner] += us
        if (owner, category) in DEDUCTIONS:
            self.deducted_us[cohort][owner, category] += us

    def _add_running(self, row: Any) -> None:
        cohort = self._cohort(row)
        self.running[cohort] += 1
        # Its next progress would take the silent tail back, and a counter cannot go down.
        self.deducted_us[cohort][SILENT] -= _ATTEMPT.decode(row.answer).silent_tail_us

    def _failures(self, conn: Connection) -> dict[tuple[str, str, str], int]:
        failures: dict[tuple[str, str, str], int] = defaultdict(int)
        for row in conn.execute(totals.FAILED):
            failures[self._cluster(row.cluster), row.origin, row.cause] += row.failures
        return failures

    def _times(self, conn: Connection, statement: Select[Any]) -> dict[Cohort, Times]:
        times = {cohort: Times() for cohort in self.phase_us}
        for row in conn.execute(statement):
            _, _, *below, count, us = row
            times[self._cohort(row)].add(map(int, below), count, int(us))
        return times


def reported_phase(phase: str, category: str) -> str:
    """Return who a second belonged to as it was reported, as the label ``phase`` says it."""
    if category == Category.RESTART_WAIT:
        return Category.RESTART_WAIT.value
    return phase or Category.UNATTRIBUTED.value


def _shown(shares: Iterable[Any]) -> tuple[frozenset[str], frozenset[str]]:
    by_cluster: dict[str, float] = defaultdict(float)
    by_cohort: dict[str, float] = defaultdict(float)
    for row in shares:
        by_cluster[label(row.cluster)] += row.weight
        by_cohort[label(row.model)] += row.weight
    return kept(by_cluster, MOST_CLUSTERS), kept(by_cohort, MOST_COHORTS)
