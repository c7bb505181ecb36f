"""Whose turn it is: jobs with marks or fallen due, without those that just failed."""

from sqlalchemy import Connection

from ett_service.storage import marks
from ett_service.storage.marks import JobKey

_FIRST_PAUSE_US = 1_000_000
_LONGEST_PAUSE_US = 300_000_000


class Turns:
    """Jobs in the order of their need. One that failed comes again later, then later still."""

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._failures: dict[JobKey, int] = {}
        self._not_before: dict[JobKey, int] = {}

    def next(self, conn: Connection, now_us: int) -> list[JobKey]:
        """Return up to ``most`` jobs: the longest marked first, then the longest overdue."""
        most = self._most + len(self._not_before)
        found = marks.marked(conn, most)
        if len(found) < most:
            found += marks.due(conn, now_us, most)
        ready = [key for key in dict.fromkeys(found) if self._not_before.get(key, 0) <= now_us]
        return ready[: self._most]

    def failed(self, key: JobKey, now_us: int) -> float:
        """Put the job off and return for how many seconds."""
        failures = self._failures.get(key, 0)
        pause_us = min(_FIRST_PAUSE_US << min(failures, 10), _LONGEST_PAUSE_US)
        self._failures[key] = failures + 1
        self._not_before[key] = now_us + pause_us
        return pause_us / 1_000_000

    def done(self, key: JobKey) -> None:
        """Forget that the job ever failed."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)
