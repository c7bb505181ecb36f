"""Which jobs are to be folded next."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection

from ett_service.core.intervals import SECOND_US
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey, Slots

_FIRST_RETRY_US = SECOND_US
_LONGEST_RETRY_US = 300 * SECOND_US


class Turn(NamedTuple):
    """What is to be done next."""

    keys: list[JobKey]  #: of the jobs to be folded
    unmerged: bool  #: whether a fold waits to be merged


class JobQueue:
    """Jobs in the order of their need. A job that failed comes later, then later still."""

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._failures: dict[JobKey, int] = {}
        self._not_before: dict[JobKey, int] = {}

    def next(
        self, conn: Connection, now_us: int, slots: Slots = None, without: Collection[JobKey] = ()
    ) -> Turn:
        """Return up to ``most`` jobs: the longest marked first, then the longest overdue."""
        most = self._most + len(self._not_before) + len(without)
        waiting = dirty_marks.waiting(conn, now_us, most, slots)
        ready = [
            key
            for key in dict.fromkeys([*waiting.marked, *waiting.due])
            if self._not_before.get(key, 0) <= now_us and key not in without
        ]
        return Turn(ready[: self._most], waiting.unmerged)

    def failed(self, key: JobKey, now_us: int) -> float:
        """Put the job off, and return for how many seconds."""
        failures = self._failures.get(key, 0)
        pause_us = min(_FIRST_RETRY_US << min(failures, 10), _LONGEST_RETRY_US)
        self._failures[key] = failures + 1
        self._not_before[key] = now_us + pause_us
        return pause_us / SECOND_US

    def done(self, key: JobKey) -> None:
        """Forget the failures of the job."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)
