"""The worker keeps the cap, unprompted and without holding jobs up."""

from ett_service.core.events import AttemptEnded, AttemptStarted, JobFacts
from ett_service.core.words import Outcome
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.worker.capping import CAP_EVERY_US, CohortCapping
from ett_service.worker.ledgers import Worker
from tests.builders.clock import HOUR, NOON, Clock
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event
from tests.builders.rollups import Rollups, check_rollups, stored_rollups
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.worker import running


def train(store: Store, project_id: int, team: str, hours: int) -> None:
    key = JobKey(project_id, team)
    events = [
        event(JobFacts, team=team, gpus=8),
        event(AttemptStarted, gpus=8),
        event(AttemptEnded, NOON + hours * HOUR, outcome=Outcome.COMPLETED),
    ]
    deliver(store, key, events)
    refreshed(store, key, NOON + 100 * HOUR)


def own(rollups: Rollups) -> set[str]:
    return {
        cohort.team
        for grain, _, _, (cohort, is_other) in rollups
        if grain == "daily" and not is_other
    }


def test_a_day_over_the_cap_is_brought_back(store: Store, project_id: int) -> None:
    for hours, team in enumerate("abcd", start=1):
        train(store, project_id, team, hours)
    clock = Clock()
    capping = CohortCapping(store, clock, most=2)

    capping.run_once()
    assert own(check_rollups(store)) == {"c", "d"}

    train(store, project_id, "e", 5)
    capping.run_once()
    assert own(check_rollups(store)) == {"c", "d"}
    clock.now_us += CAP_EVERY_US
    capping.run_once()
    assert own(check_rollups(store)) == {"d", "e"}


def test_days_for_which_there_was_no_time_come_next(store: Store, project_id: int) -> None:
    train(store, project_id, "a", 40)
    train(store, project_id, "b", 41)

    class Slow(Clock):
        """A clock that goes on a second whenever it is read."""

        def __call__(self) -> int:
            self.now_us += 1_000_000
            return self.now_us

    capping = CohortCapping(store, Slow(), most=1)
    capping.run_once()
    assert own(check_rollups(store)) == {"a", "b"}


def test_a_running_worker_keeps_the_cap(store: Store, project_id: int) -> None:
    for hours, team in enumerate("abc", start=1):
        train(store, project_id, team, hours)
    with running(Worker(store, Clock(), poll_seconds=0.01, cohorts_a_day=1)):
        assert wait_for(lambda: own(stored_rollups(store)) == {"c"})
    assert own(check_rollups(store)) == {"c"}
