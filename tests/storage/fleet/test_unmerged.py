"""What folds append is added to the rollups once, whoever merges it and whenever."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, select

from ett_service.aggregation.fold_job import refresh
from ett_service.aggregation.verify import RollupDifference, repair, verify_rollups
from ett_service.core.events import AttemptStarted, Event, JobFacts
from ett_service.core.intervals import DAY_US
from ett_service.storage.deletion import delete_job
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap, unmerged
from ett_service.storage.fleet.cohort_cap import ProjectDay
from ett_service.storage.metrics import running
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import cohort_day
from ett_service.storage.schema import unmerged as unmerged_table
from tests.builders.clock import HOUR, NOON, RECEIVED_AT
from tests.builders.databases.statements import FEWEST_STATEMENTS, Crash, before_statement
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event
from tests.builders.rollups import check_rollups, stored_rollups

LATER = NOON + HOUR


def job_of(team: str, at: int = NOON) -> list[Event]:
    return [event(JobFacts, at, team=team, gpus=8), event(AttemptStarted, gpus=8)]


def folded(store: Store, key: JobKey, team: str = "nlp", now_us: int = LATER) -> None:
    """Deliver and fold, and leave the merge to others."""
    deliver(store, key, job_of(team, now_us - 1))
    store.write(lambda conn: refresh(conn, key, now_us))


def pending(store: Store) -> int:
    with store.reading() as conn:
        return len(conn.scalars(select(unmerged_table.c.fold)).all())


def differences(store: Store) -> list[RollupDifference]:
    return [difference for day in verify_rollups(store) for difference in day.differences]


def test_a_fold_is_in_the_rollups_once_it_is_merged(store: Store, project_id: int) -> None:
    folded(store, JobKey(project_id, "a"))
    assert stored_rollups(store) == {}
    with store.reading() as conn:
        assert dirty_marks.waiting(conn, 0, 1).unmerged

    assert store.write(unmerged.merge) == 1

    assert check_rollups(store)
    assert store.write(unmerged.merge) == 0
    with store.reading() as conn:
        assert not dirty_marks.waiting(conn, 0, 1).unmerged


def test_one_merge_takes_a_bounded_number_of_whole_folds(
    store: Store, project_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unmerged, "AT_ONCE", 2)
    for name in "abc":
        folded(store, JobKey(project_id, name))

    assert [store.write(unmerged.merge) for _ in range(3)] == [2, 1, 0]

    check_rollups(store)


def test_what_is_not_merged_is_not_visible_and_counts_as_waiting(
    store: Store, project_id: int
) -> None:
    folded(store, JobKey(project_id, "a"))
    with store.reading() as conn:
        assert dirty_marks.waiting(conn, 0, 9).marked == []
        assert dirty_marks.count(conn) == 1
        waiting = running.waiting(conn)
    assert waiting.jobs == 1
    assert waiting.since_us is not None
    assert RECEIVED_AT < waiting.since_us < RECEIVED_AT + HOUR

    deliver(store, JobKey(project_id, "a"), job_of("cv", LATER))
    with store.reading() as conn:
        assert running.waiting(conn) == waiting
    refreshed(store, JobKey(project_id, "a"), LATER)
    with store.reading() as conn:
        assert running.waiting(conn) == running.Waiting(0, None)


def test_verification_counts_merged_and_unmerged_together(store: Store, project_id: int) -> None:
    one, other = JobKey(project_id, "a"), JobKey(project_id, "b")
    folded(store, one)
    assert differences(store) == []
    store.write(unmerged.merge)
    folded(store, other, "cv")
    folded(store, one, "cv", LATER + HOUR)  # takes out of what is merged
    assert pending(store) == 2
    assert differences(store) == []

    lost = unmerged_table.delete().where(unmerged_table.c.job == "a")
    store.write(lambda conn: conn.execute(lost))
    assert differences(store)

    assert repair(store)
    store.write(unmerged.merge)
    check_rollups(store)


def test_a_crash_between_any_two_steps_of_a_merge_merges_nothing(
    store: Store, project_id: int
) -> None:
    def crash() -> None:
        raise Crash

    def merge(conn: Connection) -> int:
        with before_statement(conn, statement, crash):
            return unmerged.merge(conn)

    folded(store, JobKey(project_id, "a"))
    for statement in range(100):
        try:
            store.write(merge)
        except Crash:
            assert stored_rollups(store) == {}
            assert pending(store) == 1
        else:
            assert statement >= FEWEST_STATEMENTS
            break
    check_rollups(store)


def test_a_deleted_job_leaves_nothing_to_merge(store: Store, project_id: int) -> None:
    kept, gone = JobKey(project_id, "a"), JobKey(project_id, "b")
    refreshed_at(store, kept)
    folded(store, gone)

    store.write(lambda conn: delete_job(conn, gone))

    assert pending(store) == 0
    check_rollups(store)


def refreshed_at(store: Store, key: JobKey) -> None:
    deliver(store, key, job_of("nlp"))
    refreshed(store, key, LATER)


@pytest.mark.parametrize("act", ["out", "back", "forget"])
def test_the_cap_moves_only_what_is_merged(store: Store, project_id: int, act: str) -> None:
    day = ProjectDay(project_id, NOON - NOON % DAY_US)
    key = JobKey(project_id, "a")
    refreshed_at(store, key)
    refreshed_at(store, JobKey(project_id, "b"))
    with store.reading() as conn:
        (cohort_id,) = conn.scalars(select(cohort_day.c.cohort_id)).all()

    def move(conn: Connection, *, own: bool) -> int:
        return cohort_cap.move(conn, day, [cohort_id], own=own)

    if act == "back":
        assert store.write(lambda conn: move(conn, own=False)) == 1
    folded(store, JobKey(project_id, "c"))
    folded(store, key, "cv", LATER + HOUR)
    if act == "forget":
        folded(store, JobKey(project_id, "b"), "cv", LATER + HOUR)
        folded(store, JobKey(project_id, "c"), "cv", LATER + HOUR)
        store.write(lambda conn: cohort_cap.forget(conn, day, [cohort_id]))
    else:
        assert store.write(lambda conn: move(conn, own=act == "back")) == 1
    assert differences(store) == []

    store.write(unmerged.merge)

    check_rollups(store)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_two_mergers_take_each_fold_once(store: Store, project_id: int) -> None:
    def beside(act: Callable[[], object]) -> None:
        thread = threading.Thread(target=act)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    for statement in range(1, 100):
        folded(store, JobKey(project_id, f"{statement}"))
        seen: list[int] = []

        def second(seen: list[int] = seen) -> None:
            seen.append(store.write(unmerged.merge))

        def work(conn: Connection, at: int = statement, act: Callable[[], None] = second) -> int:
            with before_statement(conn, at, lambda: beside(act)):
                return unmerged.merge(conn)

        assert store.write(work) == 1
        if not seen:
            assert statement >= FEWEST_STATEMENTS
            break
        assert seen == [0]
    check_rollups(store)
