"""Cohorts: the jobs that share a set of dimensions, and which of them each part of a job is in."""

from collections.abc import Iterator, Sequence
from typing import Any

from ett_service.core.dimensions import STATED_DIMENSIONS, Cohort
from ett_service.core.intervals import HOUR_US
from ett_service.core.ledger.results import Exclusion, JobLedger
from ett_service.core.ledger.spans import NEVER

MOST_ACCELERATORS = 1_000_000
"""More than these in one attempt are as good as unknown."""

MOST_WEIGHTED_US = 2**59
"""So are those of a job of more than 160 million accelerator hours: sums have 63 bits."""

MOST_HOURS = 20_000
"""A job that lives in more hours than this, over two years, is left out of the fleet."""


def size_of(accelerators: int | None) -> str:
    """Return the bucket of a number of accelerators: ``1``, ``2-3``, ``4-7`` and so on."""
    if not accelerators or accelerators > MOST_ACCELERATORS:
        return ""
    low = 1 << accelerators.bit_length() - 1
    return "1" if low == 1 else f"{low}-{2 * low - 1}"


def last_at(ledger: JobLedger) -> int:
    """Return the last microsecond of the job's time; as-of while it has none."""
    if ledger.started_at is None or ledger.ended_at is None:
        return ledger.as_of
    return max(ledger.started_at, ledger.ended_at - 1)


def is_weighted(ledger: JobLedger) -> bool:
    """Whether the accelerators of every attempt are known, and can be."""
    known = [one.gpus for one in ledger.attempts if one.gpus is not None]
    most = max(known, default=0)
    return (
        len(known) == len(ledger.attempts)
        and most <= MOST_ACCELERATORS
        and most * ledger.e2e_us <= MOST_WEIGHTED_US
    )


def fits(ledger: JobLedger) -> bool:
    """Whether the job lives in no more hours than ``MOST_HOURS``."""
    last = last_at(ledger)
    began = last if ledger.started_at is None else ledger.started_at
    return (last - began) // HOUR_US < MOST_HOURS


class Frame:
    """Which cohort and weight each part of a job has."""

    def __init__(self, ledger: JobLedger, exclusions: Sequence[Exclusion] = ()) -> None:
        self.known = is_weighted(ledger)
        self.weights = [one.gpus or 0 if self.known else 0 for one in ledger.attempts]
        self.fits = fits(ledger)
        facts = ledger.facts
        stated: dict[str, Any] = {name: getattr(facts, name) or "" for name in STATED_DIMENSIONS}
        plain = Cohort()._replace(**stated, size=size_of(facts.gpus))
        settings = [(one.gpus, one.code_version) for one in ledger.attempts]
        of_setting = {
            (gpus, version): plain._replace(size=size_of(gpus), code_version=version or "")
            for gpus, version in set(settings)
        }
        self.cohorts = [of_setting[one] for one in settings]
        self.home = self.cohorts[0] if self.cohorts else plain
        self._wholly = any(one == (None, None) for one in exclusions)
        self._windows = [
            (-NEVER if one.from_at is None else one.from_at, one.to_at) for one in exclusions
        ]
        self._edges = {edge for window in self._windows for edge in window if edge is not None}

    def excluded(self, at: int) -> bool:
        """Whether the instant was taken out of the fleet's numbers."""
        if not self._windows:
            return False
        return any(start <= at and (end is None or at < end) for start, end in self._windows)

    def cohort(self, number: int | None, at: int) -> Cohort:
        """Return the cohort of what an attempt, or the job, did at an instant."""
        plain = self.home if number is None else self.cohorts[number]
        if not self._windows:
            return plain
        out = self._wholly if number is None else self.excluded(at)
        return plain._replace(excluded=out)

    def of_attempt(self, number: int, *, excluded: bool) -> Cohort:
        """Return the cohort of an attempt's time, which was taken out of the numbers or not."""
        plain = self.cohorts[number]
        return plain._replace(excluded=True) if excluded else plain

    def cuts(self, start: int, end: int) -> Sequence[tuple[int, int]]:
        """Cut ``[start, end)`` at full hours and where an exclusion begins or ends."""
        if not self._edges and start < end <= start - start % HOUR_US + HOUR_US:
            return ((start, end),)
        return tuple(self._cut(start, end))

    def _cut(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        while start < end:
            stop = min(end, start - start % HOUR_US + HOUR_US)
            stop = min([edge for edge in self._edges if start < edge < stop], default=stop)
            yield start, stop
            start = stop
