"""The cap on a day's cohorts, kept day by day."""

from collections.abc import Callable
from functools import partial

from ett_service.core.intervals import SECOND_US
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap
from ett_service.storage.fleet.cohort_cap import ProjectDay

COHORTS_A_DAY = 500
CAP_EVERY_US = 30 * SECOND_US
"""How often full days are checked."""

_CAP_SLICE_US = 200_000  #: then it is the jobs' turn again
_COHORTS_AT_ONCE = 100  #: moved in one transaction: others may wait for their rows


class CohortCapping:
    """Checks full days one after the other, and moves cohorts in and out of ``other``.

    Between two checks a day may have more cohorts than *most*: those that came before any was in
    ``other``.
    """

    def __init__(self, store: Store, now_us: Callable[[], int], most: int) -> None:
        self._store = store
        self._now_us = now_us
        self._most = most
        self._due_us = 0
        self._days: list[ProjectDay] = []  #: still to be checked, the next one last

    def run_once(self) -> None:
        """Check some days if that is due."""
        began_us = self._now_us()
        if not self._days and began_us >= self._due_us:
            self._due_us = began_us + CAP_EVERY_US
            with self._store.reading() as conn:
                self._days = cohort_cap.full_days(conn, self._most)[::-1]
        while self._days and self._now_us() - began_us <= _CAP_SLICE_US:
            self._settle(self._days.pop())

    def _settle(self, day: ProjectDay) -> None:
        with self._store.reading() as conn:
            moves = cohort_cap.plan(conn, day, self._most)
        for cohort_ids, work in (
            (moves.out, partial(cohort_cap.move, own=False)),
            (moves.back, partial(cohort_cap.move, own=True)),
            (moves.gone, cohort_cap.forget),
        ):
            for at in range(0, len(cohort_ids), _COHORTS_AT_ONCE):
                batch = cohort_ids[at : at + _COHORTS_AT_ONCE]
                self._store.write(partial(work, day=day, cohort_ids=batch))
