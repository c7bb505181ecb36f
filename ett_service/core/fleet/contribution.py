"""Contribution: what one job adds to the fleet, by hour and cohort."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import TypeAlias, TypeVar

from ett_service.core.dimensions import Cohort
from ett_service.core.events import Exclusion
from ett_service.core.fleet.instant_amounts import changed_amounts, instant_amounts
from ett_service.core.fleet.measures import PLAIN, WEIGHTED, Names
from ett_service.core.fleet.owned_time import (
    Frame,
    fits,
    is_weighted,
    last_at,
    owned_time,
    waits_by_hour,
)
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.ledger.attempts.spans import NEVER
from ett_service.core.ledger.results import (
    AttemptLedger,
    JobLedger,
    OwnedWait,
    Segment,
    Work,
)
from ett_service.core.words import (
    WASTED,
    Category,
    Period,
)

S = TypeVar("S", Segment, OwnedWait)


@dataclass(slots=True)
class Cell:
    """What is added to one hour of one cohort; ``tallies`` are ``(count, us)`` by name, place."""

    sums: dict[str, int] = field(default_factory=dict)
    tallies: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def add(self, measure: str, amount: int) -> None:
        """Add to a sum."""
        if amount:
            self.sums[measure] = self.sums.get(measure, 0) + amount

    def count(self, name: str, place: int, us: int) -> None:
        """Count one in a tally."""
        before = self.tallies.get((name, place), (0, 0))
        self.tallies[name, place] = (before[0] + 1, before[1] + us)


Cells: TypeAlias = dict[tuple[int, Cohort], Cell]
"""By hour, as its first instant, and cohort."""


def contribution(
    ledger: JobLedger, exclusions: Sequence[Exclusion] = (), since: int | None = None
) -> Cells:
    """Return what the job adds, from the hour on in which the instant *since* lies.

    *ledger* is as the fold returned it, with its segments, waits and work. Cells of earlier hours
    are the same as long as :func:`first_difference` returns no earlier instant.
    """
    cells: defaultdict[tuple[int, Cohort], Cell] = defaultdict(Cell)
    frame = Frame(ledger, exclusions)
    first = -NEVER if since is None else hour_of(since)
    if frame.fits:
        _add_time(cells, ledger, frame, first)
        _add_waits(cells, ledger, frame, first)
        _add_lives(cells, ledger, frame, first)
        _add_instants(cells, ledger, frame, first)
        _add_work(cells, ledger, frame, first)
    else:
        at = last_at(ledger)
        cells[hour_of(at), frame.cohort(None, at)].add("jobs_left_out", 1)
    for cell in cells.values():
        cell.sums["cells"] = 1
    return dict(cells)


def hour_of(at: int) -> int:
    """Return the first instant of the hour, UTC."""
    return at - at % HOUR_US


def first_difference(before: JobLedger, after: JobLedger, changed_from: int | None) -> int | None:
    """Return an instant before whose hour both ledgers add the same; None if there is none.

    *changed_from* is the fold's: segments that begin before it are equal and are not compared.
    """
    if not _framed_alike(before, after):
        return None
    instants = [amounts.at for amounts in changed_amounts(before, after)]
    instants += _first_unlike(before.segments, after.segments, changed_from)
    instants += _first_unlike(before.owned_waits, after.owned_waits, None)
    for old, new in zip_longest(before.work, after.work):
        if old != new:
            instants += [work.hour_at for work in (old, new) if work is not None]
            break
    return min(instants, default=last_at(after))


def _first_unlike(before: Sequence[S], after: Sequence[S], changed_from: int | None) -> list[int]:
    since = (-NEVER if changed_from is None else changed_from,)
    olds = islice(before, bisect_left(before, since), None)
    news = islice(after, bisect_left(after, since), None)
    for old, new in zip_longest(olds, news):
        if old == new:
            continue
        if old is None or new is None:
            return [segment.start_at for segment in (old, new) if segment is not None]
        if old._replace(end_at=new.end_at) == new:
            return [min(old.end_at, new.end_at)]
        return [min(old.start_at, new.start_at)]
    return []


def _framed_alike(before: JobLedger, after: JobLedger) -> bool:
    """Whether each second of *before* has the same cohort and weight in *after*."""
    attempts = len(before.attempts)
    return (
        before.started_at == after.started_at
        and before.facts == after.facts
        and _setting(before.attempts) == _setting(after.attempts[:attempts])
        and is_weighted(before) == is_weighted(after)
        and [*map(bool, before.produced)] == [*map(bool, after.produced)]
        and fits(before) == fits(after)
    )


def _setting(attempts: Sequence[AttemptLedger]) -> list[tuple[int | None, str | None]]:
    return [(attempt.gpus, attempt.code_version) for attempt in attempts]


def _add_time(
    cells: defaultdict[tuple[int, Cohort], Cell], ledger: JobLedger, frame: Frame, first: int
) -> None:
    """Add the time from the hour *first* on."""
    spent: defaultdict[tuple[int, int, bool, Category, Period, bool], int] = defaultdict(int)
    for start, end, category, period, _, number, _, held in owned_time(ledger, frame, first):
        for since, until in frame.cuts(max(start, first), end):
            hour, is_excluded = since - since % HOUR_US, frame.excluded(since)
            spent[hour, number, is_excluded, category, period, held] += until - since
    for (hour, number, is_excluded, category, period, held), us in spent.items():
        cell = cells[hour, frame.of_attempt(number, excluded=is_excluded)]
        weighted_us = us * frame.weights[number]
        wasted = category in WASTED and period is Period.TRAINING
        _add_amount(cell, PLAIN, (category, period), us, wasted=wasted)
        if frame.known:
            _add_amount(cell, WEIGHTED, (category, period), weighted_us, wasted=wasted)
            if held and category is Category.RESTART_WAIT:
                cell.add("restart_wait_gpu_us", weighted_us)
            if held and ledger.produced.tokens:
                cell.add("tokens_gpu_us", weighted_us)
        else:
            cell.add("unweighted_us", us)
        if category is Category.EFFECTIVE_TRAINING:
            _add_productive(cell, ledger.produced, us, weighted_us)


def _add_waits(
    cells: defaultdict[tuple[int, Cohort], Cell], ledger: JobLedger, frame: Frame, first: int
) -> None:
    for (hour, number, is_excluded, owner), us in waits_by_hour(ledger, frame, first).items():
        cell = cells[hour, frame.of_attempt(number, excluded=is_excluded)]
        cell.add(PLAIN.owners[owner], us)
        cell.add(WEIGHTED.owners[owner], us * frame.weights[number])


def _add_amount(
    cell: Cell, names: Names, of: tuple[Category, Period], us: int, *, wasted: bool
) -> None:
    category, period = of
    cell.add(names.categories[category], us)
    cell.add(names.periods[period], us)
    if wasted:
        cell.add(names.wasted, us)


def _add_productive(cell: Cell, produced: Work, us: int, weighted_us: int) -> None:
    """Add effective time to what the job's tokens, samples and operations are divided by."""
    if produced.samples:
        cell.add("samples_us", us)
        cell.add("samples_weighted_us", weighted_us)
    if produced.tokens:
        cell.add("tokens_us", us)
        cell.add("tokens_weighted_us", weighted_us)
    if produced.teraflops:
        cell.add("teraflops_weighted_us", weighted_us)


def _add_lives(
    cells: defaultdict[tuple[int, Cohort], Cell], ledger: JobLedger, frame: Frame, first: int
) -> None:
    """Count the job in every hour, and in every day, in which it lives."""
    if ledger.started_at is None:
        return
    began = hour_of(ledger.started_at)
    for hour in range(max(began, first), last_at(ledger) + 1, HOUR_US):
        cell = cells[hour, frame.cohort(None, hour)]
        cell.add("jobs_hour", 1)
        if hour == began or hour % DAY_US == 0:
            cell.add("jobs_day", 1)


def _add_instants(
    cells: defaultdict[tuple[int, Cohort], Cell], ledger: JobLedger, frame: Frame, first: int
) -> None:
    for at, number, sums, weighted, tally in instant_amounts(ledger, first):
        if at < first:
            continue
        cell = cells[hour_of(at), frame.cohort(number, at)]
        for measure, amount in sums:
            cell.add(measure, amount)
        if number is not None:
            for measure, us in weighted:
                cell.add(measure, us * frame.weights[number])
        if tally is not None:
            cell.count(*tally)


def _add_work(
    cells: defaultdict[tuple[int, Cohort], Cell], ledger: JobLedger, frame: Frame, first: int
) -> None:
    for hour, number, work in ledger.work:
        if hour >= first:
            cell = cells[hour, frame.cohort(number, hour)]
            cell.add("samples", work.samples)
            cell.add("tokens", work.tokens)
            if frame.known:
                cell.add("samples_known", work.samples)
                cell.add("tokens_known", work.tokens)
                cell.add("teraflops", work.teraflops)
