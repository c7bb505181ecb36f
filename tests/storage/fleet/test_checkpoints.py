from ett_service.core.events import AttemptEnded, AttemptStarted, CheckpointSaved, JobFacts
from ett_service.core.words import Outcome
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.histories import cohort_gaps
from ett_service.storage.fleet.rollups import CohortFilter
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event

DAY = (NOON - 12 * HOUR, NOON + 12 * HOUR)


def saves(store: Store, key: JobKey, team: str, *minutes: int) -> None:
    """Let a job save so many minutes after noon, the last time in a second attempt."""
    *first, last = minutes
    deliver(
        store,
        key,
        [
            event(JobFacts, team=team),
            event(AttemptStarted),
            *(event(CheckpointSaved, NOON + at * MINUTE, step=at) for at in first),
            event(AttemptEnded, NOON + first[-1] * MINUTE, outcome=Outcome.FAILED),
            event(CheckpointSaved, NOON + last * MINUTE, step=last, attempt=1),
        ],
    )
    refreshed(store, key, NOON + 5 * HOUR)


def test_gaps_lie_between_checkpoints_of_one_attempt(store: Store, project_id: int) -> None:
    saves(store, JobKey(project_id, "a"), "red", 5, 15, 35, 45)
    saves(store, JobKey(project_id, "b"), "blue", 10, 100, 110)

    with store.reading() as conn:
        by_group = cohort_gaps(conn, CohortFilter(), DAY)
        by_team = cohort_gaps(conn, CohortFilter((project_id,)), DAY, ["team"])
        red = cohort_gaps(conn, CohortFilter(where={"team": frozenset({"red"})}), DAY)

    assert {group: sorted(gaps) for group, gaps in by_group.items()} == {
        (): [10 * MINUTE, 20 * MINUTE, 90 * MINUTE]
    }
    assert by_team == {("red",): [20 * MINUTE, 10 * MINUTE], ("blue",): [90 * MINUTE]}
    assert red == {(): [20 * MINUTE, 10 * MINUTE]}


def test_only_the_window_counts_and_of_it_the_latest(store: Store, project_id: int) -> None:
    saves(store, JobKey(project_id, "a"), "red", 5, 65, 75, 95, 125, 200)

    with store.reading() as conn:
        second_hour = cohort_gaps(conn, CohortFilter(), (NOON + HOUR, NOON + 2 * HOUR))
        latest = cohort_gaps(conn, CohortFilter(), DAY, most=1)
        elsewhere = cohort_gaps(conn, CohortFilter((project_id + 1,)), DAY)

    assert second_hour == {(): [20 * MINUTE, 10 * MINUTE]}
    assert latest == {(): [30 * MINUTE]}
    assert elsewhere == {}
