"""What a scenario would have gained in a window, recomputed from the ledgers of its jobs.

A gain is what a job's ledger would not hold (``core.planning.scenario``), summed over jobs;
the ratio after it is divided anew. Nothing is scaled, but for a window of more than ``MOST_READ``.
Of that a sample is read, its gains stand for the like share of the window's time, and the answer
says so.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from sqlalchemy import Connection

from ett_service.core.dimensions import DIMENSIONS, Cohort
from ett_service.core.events import Exclusion
from ett_service.core.fleet.measures import WEIGHTED
from ett_service.core.fleet.owned_time import (
    Frame,
    OwnedTime,
    is_weighted,
    time_in_window,
    with_waits,
)
from ett_service.core.fleet.totals import Totals, ratio
from ett_service.core.intervals import HOUR_US
from ett_service.core.ledger.results import AttemptLedger, JobLedger
from ett_service.core.planning.scenario import Counterfactual, CutFailures, Saved, Scenario
from ett_service.core.words import FAILURES, Category
from ett_service.fleet.economy import Economy
from ett_service.fleet.scope import Scope, Window
from ett_service.fleet.uncertainty import Floats, Interval, Resampling, interval
from ett_service.storage.fleet import rollups
from ett_service.storage.fleet.histories import JobHistory, histories
from ett_service.storage.fleet.sample import MOST_READ, jobs_alive

_MEASURES = (*WEIGHTED.categories.values(), "restart_wait_gpu_us")


@dataclass(frozen=True, slots=True)
class Amount:
    """Accelerators' time of a window, in microseconds."""

    effective_us: int
    us: int
    gpu_us: int  #: while they were held

    @property
    def ett_ratio(self) -> float:
        """The headline; 0 for no time."""
        return ratio(self.effective_us, self.us)


_NO_TIME = Amount(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ScenarioGain:
    """What one scenario gains, or all of them together."""

    scenarios: tuple[Scenario, ...]
    after: Amount
    gpu_us: int  #: that would not have been needed
    money: float | None  #: None where any of that time has no price
    failures: int  #: that might not have happened
    jobs: int  #: that it takes something from
    ratio_interval: Interval | None  #: of how much ETT% gains; None with fewer than two jobs
    gpu_us_interval: Interval | None

    def ratio_gained(self, before: Amount) -> float:
        """By how much ETT% would be higher."""
        return self.after.ett_ratio - before.ett_ratio


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Gains, the largest first; they do not add up, so *together* is what all would gain."""

    before: Amount
    gains: tuple[ScenarioGain, ...]
    together: ScenarioGain
    jobs: int  #: that have time in the window
    read: int  #: of them, drawn where there are more than ``MOST_READ``
    jobs_without_accelerators: int  #: among those read: they weigh nothing


def what_if(
    conn: Connection,
    scope: Scope,
    window: Window,
    scenarios: Sequence[Scenario],
    economy: Economy,
    most_jobs: int = MOST_READ,
) -> WhatIf:
    """Return what each of *scenarios* would have gained in the window, and all of them together."""
    sample = jobs_alive(conn, scope.cohorts, window, most_jobs)
    reading = _Reading(
        scope, window, economy, [*((scenario,) for scenario in scenarios), tuple(scenarios)]
    )
    for history in histories(conn, sample.keys):
        reading.add(history)
    is_whole = sample.drawn_from == len(sample.keys)
    before = reading.amount if is_whole else _all_time(conn, scope, window)
    *gains, together = reading.gains(before)
    return WhatIf(
        before=before,
        gains=tuple(sorted(gains, key=lambda gain: (gain.after.us, gain.after.gpu_us))),
        together=together,
        jobs=sample.drawn_from,
        read=len(sample.keys),
        jobs_without_accelerators=reading.weightless,
    )


def _all_time(conn: Connection, scope: Scope, window: Window) -> Amount:
    by_place = rollups.totals(conn, scope.cohorts, window, measures=_MEASURES, tallies=False)
    totals = sum(by_place.values(), Totals.ZERO)
    return Amount(totals.effective_weighted_us, totals.weighted_us, totals.gpu_us)


@dataclass(slots=True)
class _ScenarioGain:
    """What goes with some scenarios, in the jobs read so far."""

    scenarios: tuple[Scenario, ...]
    weighted_us: int = 0
    gpu_us: dict[Fraction | None, int] = field(default_factory=lambda: defaultdict(int))
    """By the price of an hour; None where there is none."""
    failures: int = 0
    jobs: int = 0

    def of(self, ledger: JobLedger, parts: Sequence["_Part"]) -> "_Gone | None":
        """Return what goes of a job, by part; None where the scenarios can take nothing."""
        counterfactual = Counterfactual(ledger, self.scenarios)
        if counterfactual.is_idle:
            return None
        return [(counterfactual.saved(part.losses), part.price) for part in parts]

    def add(self, gone: "_Gone") -> tuple[int, int]:
        """Take in what goes of a job; return its weighted and its GPU time."""
        for saved, price in gone:
            self.weighted_us += saved.weighted_us
            self.gpu_us[price] += saved.gpu_us
        self.jobs += any(saved.us for saved, _ in gone)
        return (
            sum(saved.weighted_us for saved, _ in gone),
            sum(saved.gpu_us for saved, _ in gone),
        )

    def prevents(self, attempt: AttemptLedger) -> bool:
        """Whether the attempt ended in a failure that might not happen."""
        return any(
            isinstance(scenario, CutFailures) and scenario.covers(attempt)
            for scenario in self.scenarios
        )


_Gone: TypeAlias = Sequence[tuple[Saved, Fraction | None]]
"""What goes of each part of a job, and the price of an hour."""


class _Part(NamedTuple):
    """A job's time while one price held."""

    amount: Amount
    losses: Sequence[OwnedTime]  #: what was not effective
    price: Fraction | None  #: of an hour of one accelerator


class _Reading:
    """The jobs of a window, one after the other; only sums are kept of them."""

    def __init__(
        self,
        scope: Scope,
        window: Window,
        economy: Economy,
        questions: Iterable[tuple[Scenario, ...]],
    ) -> None:
        self.amount = _NO_TIME
        self.weightless = 0
        self._scope, self._window, self._economy = scope, window, economy
        self._found = [_ScenarioGain(scenarios) for scenarios in questions]
        self._resampling = Resampling(2 + 2 * len(self._found))

    def add(self, history: JobHistory) -> None:
        """Take in a job."""
        ledger, exclusions = with_waits(history.ledger), history.exclusions
        parts = list(self._parts(ledger, exclusions))
        mine = reduce(_sum, (part.amount for part in parts), _NO_TIME)
        self.amount = _sum(self.amount, mine)
        self.weightless += not is_weighted(ledger)
        row: list[int] = [mine.effective_us, mine.us]
        failed = list(self._failed(ledger, exclusions))
        for effect, gone in zip(self._found, self._gone(ledger, parts), strict=True):
            row += effect.add(gone)
            effect.failures += sum(effect.prevents(attempt) for attempt in failed)
        self._resampling.add(row)

    def _gone(self, ledger: JobLedger, parts: Sequence[_Part]) -> list[_Gone]:
        """Return what each scenario, and all together, take from a job."""
        *alone, together = self._found
        gone = [effect.of(ledger, parts) for effect in alone]
        acting = [each for each in gone if each is not None]
        # Where one acts, all together take what it takes.
        of_all = together.of(ledger, parts) if len(acting) > 1 else next(iter(acting), None)
        return [each or () for each in (*gone, of_all)]

    def _parts(self, ledger: JobLedger, exclusions: Sequence[Exclusion]) -> Iterator[_Part]:
        hardware = ledger.facts.hardware or ""
        edges = [self._window.from_us, *self._economy.cuts(*self._window), self._window.to_us]
        for start, end in pairwise(edges):
            times = list(self._wanted(time_in_window(ledger, (start, end), exclusions)))
            if times:
                lost = [each for each in times if each.category is not Category.EFFECTIVE_TRAINING]
                yield _Part(_amount(times), lost, self._economy.price(hardware, start))

    def _wanted(self, times: Iterable[tuple[Cohort, OwnedTime]]) -> Iterator[OwnedTime]:
        latest, is_wanted = None, False
        for cohort, owned in times:
            if cohort is not latest:
                latest, is_wanted = cohort, self._is_wanted(cohort)
            if is_wanted:
                yield owned

    def _failed(
        self, ledger: JobLedger, exclusions: Sequence[Exclusion]
    ) -> Iterator[AttemptLedger]:
        """Yield the attempts that failed in the window and in a wanted cohort."""
        first, last = self._window
        failed = [
            attempt
            for attempt in ledger.attempts
            if attempt.outcome in FAILURES and first <= attempt.ended_at < last
        ]
        if failed:
            frame = Frame(ledger, exclusions)
            for attempt in failed:
                if self._is_wanted(frame.cohort(attempt.number, attempt.ended_at)):
                    yield attempt

    def _is_wanted(self, cohort: Cohort) -> bool:
        if cohort.excluded and self._scope.exclusions == "left_out":
            return False
        return all(
            getattr(cohort, name) in values
            for name, values in self._scope.where.items()
            if name in DIMENSIONS
        )

    def gains(self, before: Amount) -> list[ScenarioGain]:
        """Return what the scenarios gain, where all of the window's time was *before*."""
        draws = self._resampling.draws()
        return [
            self._gain(effect, before, draws, 2 + 2 * place)
            for place, effect in enumerate(self._found)
        ]

    def _gain(
        self, effect: _ScenarioGain, before: Amount, draws: Floats | None, column: int
    ) -> ScenarioGain:
        scale = ratio(before.us, self.amount.us)
        held_scale = ratio(before.gpu_us, self.amount.gpu_us)
        gpu_us = sum(effect.gpu_us.values())
        unpriced = effect.gpu_us.get(None, 0)
        money = sum((price or 0) * us for price, us in effect.gpu_us.items()) / HOUR_US
        has_price = bool(self._economy.prices) and not unpriced
        return ScenarioGain(
            scenarios=effect.scenarios,
            after=Amount(
                before.effective_us,
                before.us - round(scale * effect.weighted_us),
                before.gpu_us - round(held_scale * gpu_us),
            ),
            gpu_us=round(held_scale * gpu_us),
            money=float(money) * held_scale if has_price else None,
            failures=effect.failures,
            jobs=effect.jobs,
            ratio_interval=None if draws is None else _ratio_interval(draws, column),
            gpu_us_interval=(
                None if draws is None else interval(draws[:, column + 1] * held_scale)
            ),
        )


def _ratio_interval(draws: Floats, column: int) -> Interval | None:
    effective, us, gone = draws[:, 0], draws[:, 1], draws[:, column]
    with np.errstate(divide="ignore", invalid="ignore"):
        return interval(effective / (us - gone) - effective / us)


def _amount(times: Iterable[OwnedTime]) -> Amount:
    effective_us = us = gpu_us = 0
    for owned in times:
        weighted_us = (owned.end_at - owned.start_at) * owned.gpus
        us += weighted_us
        gpu_us += weighted_us if owned.held else 0
        if owned.category is Category.EFFECTIVE_TRAINING:
            effective_us += weighted_us
    return Amount(effective_us, us, gpu_us)


def _sum(amount: Amount, other: Amount) -> Amount:
    return Amount(
        amount.effective_us + other.effective_us, amount.us + other.us, amount.gpu_us + other.gpu_us
    )
