"""Stops for a save: the stretches of the ledger that ``checkpoint_blocking`` owns."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from ett_service.core.answer import JobLedger
from ett_service.core.span import NEVER
from ett_service.core.vocabulary import Category, Outcome


class Save(NamedTuple):
    """One stop ``[start_at, end_at)`` of an attempt."""

    start_at: int
    end_at: int
    number: int


def saves(ledger: JobLedger, since: int = -NEVER) -> Iterator[Save]:
    """Yield each stop that is over and ended at *since* or later, in order."""
    segments = ledger.segments
    for one in segments[max(0, bisect_left(segments, (since,)) - 1) :]:
        if one.category is not Category.CHECKPOINT_BLOCKING or one.number is None:
            continue
        attempt = ledger.attempts[one.number]
        is_open = attempt.outcome is Outcome.RUNNING and one.end_at == attempt.ended_at
        if one.end_at >= since and not is_open:
            yield Save(one.start_at, one.end_at, one.number)
