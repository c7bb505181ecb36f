"""Folds kept from one refresh of a job to the next."""

from collections import OrderedDict

from ett_service.aggregation.job import KeptFold
from ett_service.storage.record.dirty_marks import JobKey

MOST_EVENTS = 1_000_000


class Folds:
    """The folds used last, together of no more than *most_events* events.

    Whoever takes one owns it. It comes back only once its transaction is committed: a fold that
    knows more than the database would otherwise be taken for what is stored.
    """

    def __init__(self, most_events: int = MOST_EVENTS) -> None:
        self._most = most_events
        self._events = 0
        self._kept: OrderedDict[JobKey, tuple[KeptFold, int]] = OrderedDict()

    def take(self, key: JobKey) -> KeptFold | None:
        """Remove and return the job's fold."""
        if key not in self._kept:
            return None
        kept, events = self._kept.pop(key)
        self._events -= events
        return kept

    def keep(self, kept: KeptFold) -> None:
        """Put a fold back, and let go of those that were unused for longest."""
        self.take(kept.key)
        self._kept[kept.key] = (kept, kept.fold.event_count)
        self._events += kept.fold.event_count
        while self._events > self._most:
            _, (_, events) = self._kept.popitem(last=False)
            self._events -= events
