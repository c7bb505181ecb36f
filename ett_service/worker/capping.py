"""The cap on the cohorts of a day, kept a little at a time."""

from collections.abc import Callable, Sequence
from functools import partial

from ett_service.storage import cap
from ett_service.storage.cap import Day
from ett_service.storage.engine import Store

COHORTS_A_DAY = 500

EVERY_US = 30_000_000
"""How often the days are looked at, in microseconds."""

_LONGEST_US = 200_000  #: then it is the jobs' turn again
_AT_ONCE = 100  #: cohorts moved in one transaction: others may wait for their rows


class Capping:
    """Looks at one full day after the other, and moves cohorts in and out of ``other``.

    Between two looks a day may have more cohorts than *most*: those that first came in between,
    before any was in ``other``.
    """

    def __init__(self, store: Store, now_us: Callable[[], int], most: int) -> None:
        self._store = store
        self._now_us = now_us
        self._most = most
        self._due_us = 0
        self._left: list[Day] = []  #: the next one last

    def go_on(self) -> None:
        """Look at some days if that is due."""
        began_us = self._now_us()
        if not self._left and began_us >= self._due_us:
            self._due_us = began_us + EVERY_US
            with self._store.reading() as conn:
                self._left = cap.full_days(conn, self._most)[::-1]
        while self._left and self._now_us() - began_us <= _LONGEST_US:
            self._settle(self._left.pop())

    def _settle(self, day: Day) -> None:
        with self._store.reading() as conn:
            moves = cap.plan(conn, day, self._most)
        for some in _pieces(moves.out):
            self._store.write(partial(cap.move, day=day, cohort_ids=some, own=False))
        for some in _pieces(moves.back):
            self._store.write(partial(cap.move, day=day, cohort_ids=some, own=True))
        for some in _pieces(moves.gone):
            self._store.write(partial(cap.forget, day=day, cohort_ids=some))


def _pieces(cohort_ids: Sequence[int]) -> list[Sequence[int]]:
    return [cohort_ids[at : at + _AT_ONCE] for at in range(0, len(cohort_ids), _AT_ONCE)]
