"""The order in which a worker folds jobs: by their need, and none at the cost of the others."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection

from ett_service.core.intervals import HOUR_US, SECOND_US
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey, Slots

_FIRST_RETRY_US = SECOND_US
_LONGEST_RETRY_US = 300 * SECOND_US

_SLOW_US = SECOND_US // 10
"""A job whose fold took so much of a processor is not folded again at once."""

_REST = 4
"""It rests for so many times as long: one that is sent to all the time has a fifth of a thread."""


class Turn(NamedTuple):
    """What is to be done next."""

    keys: list[JobKey]  #: of the jobs to be folded
    unmerged: bool  #: whether a fold waits to be merged


class Took(NamedTuple):
    """What it took to fold a job, in microseconds."""

    wall_us: int
    processor_us: int  #: of that, what it did not wait for others


class Rest(NamedTuple):
    """For how long a job that is slow to fold is left alone."""

    until_us: int
    quiet_us: int  #: or until so long nothing came: that is then all, and soon to be told


class JobQueue:
    """Jobs in the order of their need.

    A job that failed comes later, then later still; one that was slow to fold comes after a rest.
    """

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._failures: dict[JobKey, int] = {}
        self._not_before: dict[JobKey, int] = {}
        self._rests: dict[JobKey, Rest] = {}

    def next(
        self,
        conn: Connection,
        now_us: int,
        slots: Slots = None,
        without: Collection[JobKey] = (),
        *,
        resting: bool = False,
    ) -> Turn:
        """Return up to ``most`` jobs: the longest marked first, then the longest overdue.

        Those that rest after a slow fold are among them if *resting* ones are wanted.
        """
        most = self._most + len(self._not_before) + len(self._rests) + len(without)
        waiting = dirty_marks.waiting(conn, now_us, most, slots)
        marked_us = waiting.last_marked_us
        ready = [
            key
            for key in dict.fromkeys([*marked_us, *waiting.due])
            if key not in without
            and self._not_before.get(key, now_us) <= now_us
            and (resting or self._is_rested(key, now_us, marked_us.get(key, now_us)))
        ]
        return Turn(ready[: self._most], waiting.unmerged)

    def _is_rested(self, key: JobKey, now_us: int, marked_us: int) -> bool:
        rest = self._rests.get(key)
        return rest is None or rest.until_us <= now_us or marked_us + rest.quiet_us <= now_us

    def is_slow(self, key: JobKey) -> bool:
        """Whether the job was slow to fold the last time."""
        return key in self._rests

    def failed(self, key: JobKey, now_us: int) -> float:
        """Put the job off, and return for how many seconds."""
        failures = self._failures.get(key, 0)
        pause_us = min(_FIRST_RETRY_US << min(failures, 10), _LONGEST_RETRY_US)
        self._failures[key] = failures + 1
        self._not_before[key] = now_us + pause_us
        return pause_us / SECOND_US

    def done(self, key: JobKey, now_us: int, took: Took) -> None:
        """Forget the failures of the job, and let it rest for as long as its fold demands."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)
        self._rests.pop(key, None)
        if took.processor_us >= _SLOW_US:
            over_us = now_us - HOUR_US  # what was slow so long ago is likely over
            recent = {each: rest for each, rest in self._rests.items() if rest.until_us > over_us}
            self._rests = {**recent, key: Rest(now_us + _REST * took.wall_us, took.processor_us)}
