"""Ranks: how long each takes for a step and waits for its data, and which is slowest.

Where ranks train in step, each waits for the slowest inside the step, so all show one step time.
Their waits for data, which come before they meet, tell them apart.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from statistics import median, median_low
from typing import NamedTuple

from ett_service.core.events import Event
from ett_service.core.ledger.attempts.attempt_events import Placed, reported_us
from ett_service.core.ledger.results import JobLedger
from ett_service.core.ledger.stages import by_attempt


class RankTotals(NamedTuple):
    """What one process has done since its first step; it only grows."""

    steps: int = 0
    loop_us: int = 0  #: from its first step to its last
    data_wait_us: int | None = 0  #: None where it reports none


class RankWindow(NamedTuple):
    """The steps between two reports of one process, and what each took on average."""

    steps: int
    step_seconds: float
    data_wait_seconds: float | None


@dataclass(frozen=True, slots=True)
class RankTime:
    """A rank's windows of one attempt, or those of all ranks of a host: medians over them."""

    number: int  #: of the attempt
    host: str | None
    rank: int | None  #: None for the host as a whole
    ranks: int
    windows: int
    steps: int
    step_seconds: float
    data_wait_seconds: float | None  #: a step


@dataclass(frozen=True, slots=True)
class SlowestRank:
    """The rank that takes longest, beside the median of the attempt's ranks."""

    number: int
    measure: str  #: ``step_seconds`` or ``data_wait_seconds``
    rank: int
    host: str | None
    seconds: float
    median_seconds: float
    ranks: int  #: that report it
    windows: int  #: of the slowest


def rank_times(
    events: Iterable[Event], offsets: Mapping[str, int], ledger: JobLedger
) -> list[RankTime]:
    """Return the times of each rank, and then of each host, by attempt.

    *ledger* is the fold of the same events and offsets.
    """
    given = by_attempt(events, offsets)
    return [
        time
        for attempt in ledger.attempts
        for time in attempt_times(
            attempt.number, given[attempt.launch, attempt.attempt, attempt.cycle]
        )
    ]


def attempt_times(number: int, items: Sequence[Placed]) -> Iterator[RankTime]:
    """Yield the times of one attempt, whose events are *items*."""
    windows_of = _windows(items)
    by_host: dict[str | None, list[RankWindow]] = defaultdict(list)
    for (host, rank), windows in sorted(windows_of.items(), key=lambda item: item[0][1]):
        by_host[host] += windows
        yield _summed_up(number, host, rank, 1, windows)
    for host, windows in sorted(by_host.items(), key=lambda item: item[0] or ""):
        ranks = sum(each == host for each, _ in windows_of)
        yield _summed_up(number, host, None, ranks, windows)


def _summed_up(
    number: int, host: str | None, rank: int | None, ranks: int, windows: Sequence[RankWindow]
) -> RankTime:
    waits = [each.data_wait_seconds for each in windows if each.data_wait_seconds is not None]
    return RankTime(
        number,
        host,
        rank,
        ranks,
        len(windows),
        sum(window.steps for window in windows),
        median(window.step_seconds for window in windows),
        median(waits) if waits else None,
    )


def _windows(items: Iterable[Placed]) -> dict[tuple[str | None, int], list[RankWindow]]:
    """Cut what each process reports into windows; totals that fall begin anew."""
    before: dict[tuple[int, str | None], RankTotals] = {}
    windows: dict[tuple[str | None, int], list[RankWindow]] = defaultdict(list)
    for _, _, _, _, event in sorted(items):
        totals = totals_of(event)
        if totals is None or event.rank is None:
            continue
        process = (event.rank, event.producer)
        window = _between(before.get(process, RankTotals()), totals)
        before[process] = totals
        if window is not None:
            windows[event.host, event.rank].append(window)
    return windows


def totals_of(event: Event) -> RankTotals | None:
    """Return the totals that an event carries in its attributes; None where it carries none."""
    steps = event.attributes.get("steps")
    loop_us = reported_us(event.attributes.get("loop_seconds"))
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0 or loop_us is None:
        return None
    return RankTotals(steps, loop_us, reported_us(event.attributes.get("data_wait_seconds")))


def _between(before: RankTotals, after: RankTotals) -> RankWindow | None:
    steps, us = after.steps - before.steps, after.loop_us - before.loop_us
    if steps <= 0 or us < 0:
        return None
    waited = None
    if before.data_wait_us is not None and after.data_wait_us is not None:
        waited = max(0, after.data_wait_us - before.data_wait_us) / steps / 1e6
    return RankWindow(steps, us / steps / 1e6, waited)


MEASURES = ("step_seconds", "data_wait_seconds")
"""What ranks are compared by."""


def slowest_ranks(times: Iterable[RankTime]) -> list[SlowestRank]:
    """Return the slowest rank of each attempt by each measure that two ranks or more report."""
    return [
        slowest
        for _, of_attempt in groupby(times, key=attrgetter("number"))
        for slowest in _slowest(list(of_attempt))
    ]


def _slowest(times: Sequence[RankTime]) -> Iterator[SlowestRank]:
    for measure in MEASURES:
        by_rank = [
            (seconds, time.rank, time)
            for time in times
            if time.rank is not None and (seconds := getattr(time, measure)) is not None
        ]
        if len(by_rank) > 1:
            seconds, rank, time = max(by_rank, key=lambda each: (each[0], -each[1]))
            middle = median_low(each[0] for each in by_rank)
            yield SlowestRank(
                time.number, measure, rank, time.host, seconds, middle, len(by_rank), time.windows
            )
