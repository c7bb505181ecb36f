"""What folds append is added once, to hours and to days; what comes to nothing leaves no row."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from sqlalchemy import Connection, select

from ett_service.aggregation.fold_job import refresh
from ett_service.aggregation.verify import RollupDifference, repair, verify_rollups
from ett_service.core.dimensions import Cohort
from ett_service.core.events import AttemptStarted, Event, JobFacts
from ett_service.core.fleet.measures import MEASURES
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap, rollup_deltas
from ett_service.storage.fleet.cohort_cap import ProjectDay
from ett_service.storage.fleet.rollup_deltas import RollupDeltas, Sums, Tallies, day_of
from ett_service.storage.metrics import gauge_values
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.retention import delete_job
from ett_service.storage.schema import cohort_day, metadata, unmerged
from ett_service.storage.schema.record import EVERY_HOUR
from tests.builders.clock import HOUR, NOON, RECEIVED_AT
from tests.builders.databases.engines import ON_SERVERS
from tests.builders.databases.statements import FEWEST_STATEMENTS, Crash, before_statement
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event
from tests.builders.rollups import check_rollups, stored_rollups

DAY = day_of(NOON)
TALLIES: Tallies = {"queue_wait": {3: (2, 50), 4: (1, 40)}}

LATER = NOON + HOUR


def sums(**amounts: int) -> Sums:
    return [amounts.get(name, 0) for name in MEASURES]


def read(store: Store, table: str) -> dict[Any, Mapping[str, Any]]:
    """Read a table by start, and by name and place where it has them; only what is not 0."""
    with store.reading() as conn:
        rows = conn.execute(select(metadata.tables[table])).mappings().all()
    keys = ("start_us", "name", "place")
    left_out = {*keys, "project_id", "cohort_id"}
    return {
        tuple(row[key] for key in keys if key in row): {
            name: value for name, value in row.items() if value and name not in left_out
        }
        for row in rows
    }


@pytest.fixture
def cohort_id(store: Store, project_id: int) -> int:
    ids = store.write(lambda conn: rollup_deltas.ids(conn, project_id, [Cohort(team="nlp")]))
    return ids[Cohort(team="nlp")]


def write(store: Store, project_id: int, deltas: RollupDeltas) -> None:
    store.write(lambda conn: rollup_deltas.write(conn, project_id, deltas.by_table(EVERY_HOUR)))


def test_hours_add_up_to_days(store: Store, project_id: int, cohort_id: int) -> None:
    deltas = RollupDeltas()
    for hour in (0, 23, 24):
        deltas.put(DAY + hour * HOUR_US, cohort_id, sums(stalled_us=7, cells=1), TALLIES)
    write(store, project_id, deltas)
    write(store, project_id, deltas)

    assert read(store, "rollup_hourly") == {
        (DAY + hour * HOUR_US,): {"stalled_us": 14, "cells": 2} for hour in (0, 23, 24)
    }
    assert read(store, "rollup_daily") == {
        (DAY,): {"stalled_us": 28, "cells": 4},
        (DAY + DAY_US,): {"stalled_us": 14, "cells": 2},
    }
    assert read(store, "tally_daily") == {
        (DAY, "queue_wait", 3): {"count": 8, "us": 200},
        (DAY, "queue_wait", 4): {"count": 4, "us": 160},
        (DAY + DAY_US, "queue_wait", 3): {"count": 4, "us": 100},
        (DAY + DAY_US, "queue_wait", 4): {"count": 2, "us": 80},
    }


def test_what_is_taken_out_again_leaves_no_row(
    store: Store, project_id: int, cohort_id: int
) -> None:
    content = (DAY, cohort_id, sums(stalled_us=7, failures=1, cells=1), TALLIES)
    there, back = RollupDeltas(), RollupDeltas()
    there.put(*content)
    back.take(*content)

    write(store, project_id, there)
    write(store, project_id, back)

    for table in ("rollup_hourly", "rollup_daily", "tally_hourly", "tally_daily"):
        assert read(store, table) == {}


def test_a_row_stays_while_it_sums_anything(store: Store, project_id: int, cohort_id: int) -> None:
    both, back = RollupDeltas(), RollupDeltas()
    both.put(DAY, cohort_id, sums(stalled_us=7, cells=1), {})
    both.put(DAY, cohort_id, sums(cells=1), {})
    back.take(DAY, cohort_id, sums(stalled_us=7, cells=1), {})

    write(store, project_id, both)
    write(store, project_id, back)

    assert read(store, "rollup_hourly") == {(DAY,): {"cells": 1}}


def test_what_cancels_out_is_not_written() -> None:
    deltas = RollupDeltas()
    deltas.put(DAY, 1, sums(stalled_us=7, cells=1), TALLIES)
    deltas.take(DAY, 1, sums(stalled_us=7, cells=1), TALLIES)

    assert not any(deltas.by_table(EVERY_HOUR).values())


def test_amounts_of_64_bits_are_kept_whole(store: Store, project_id: int, cohort_id: int) -> None:
    deltas = RollupDeltas()
    deltas.put(DAY, cohort_id, sums(tokens=2**62, cells=1), {"queue_wait": {0: (1, 2**62)}})
    write(store, project_id, deltas)

    assert read(store, "rollup_daily")[(DAY,)]["tokens"] == 2**62
    assert read(store, "tally_daily")[DAY, "queue_wait", 0]["us"] == 2**62


def job_of(team: str, at: int = NOON) -> list[Event]:
    return [event(JobFacts, at, team=team, gpus=8), event(AttemptStarted, gpus=8)]


def folded(store: Store, key: JobKey, team: str = "nlp", now_us: int = LATER) -> None:
    """Deliver and fold, and leave the merge to others."""
    deliver(store, key, job_of(team, now_us - 1))
    store.write(lambda conn: refresh(conn, key, now_us))


def pending(store: Store) -> int:
    with store.reading() as conn:
        return len(conn.scalars(select(unmerged.c.fold)).all())


def differences(store: Store) -> list[RollupDifference]:
    return [difference for day in verify_rollups(store) for difference in day.differences]


def test_a_fold_is_in_the_rollups_once_it_is_merged(store: Store, project_id: int) -> None:
    folded(store, JobKey(project_id, "a"))
    assert stored_rollups(store) == {}
    with store.reading() as conn:
        assert dirty_marks.waiting(conn, 0, 1).unmerged

    assert store.write(rollup_deltas.merge) == 1

    assert check_rollups(store)
    assert store.write(rollup_deltas.merge) == 0
    with store.reading() as conn:
        assert not dirty_marks.waiting(conn, 0, 1).unmerged


def test_one_merge_takes_a_bounded_number_of_whole_folds(
    store: Store, project_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup_deltas, "MERGED_AT_ONCE", 2)
    for name in "abc":
        folded(store, JobKey(project_id, name))

    assert [store.write(rollup_deltas.merge) for _ in range(3)] == [2, 1, 0]

    check_rollups(store)


def test_what_is_not_merged_is_not_visible_and_counts_as_waiting(
    store: Store, project_id: int
) -> None:
    folded(store, JobKey(project_id, "a"))
    with store.reading() as conn:
        assert dirty_marks.waiting(conn, 0, 9).last_marked_us == {}
        assert gauge_values.waiting(conn).jobs == 1
        waiting = gauge_values.waiting(conn)
    assert waiting.jobs == 1
    assert waiting.since_us is not None
    assert RECEIVED_AT < waiting.since_us < RECEIVED_AT + HOUR

    deliver(store, JobKey(project_id, "a"), job_of("cv", LATER))
    with store.reading() as conn:
        assert gauge_values.waiting(conn) == waiting
    refreshed(store, JobKey(project_id, "a"), LATER)
    with store.reading() as conn:
        assert gauge_values.waiting(conn) == gauge_values.PendingJobs(0, None)


def test_verification_counts_merged_and_unmerged_together(store: Store, project_id: int) -> None:
    key, other = JobKey(project_id, "a"), JobKey(project_id, "b")
    folded(store, key)
    assert differences(store) == []
    store.write(rollup_deltas.merge)
    folded(store, other, "cv")
    folded(store, key, "cv", LATER + HOUR)  # takes out of what is merged
    assert pending(store) == 2
    assert differences(store) == []

    lost = unmerged.delete().where(unmerged.c.job == "a")
    store.write(lambda conn: conn.execute(lost))
    assert differences(store)

    assert repair(store)
    store.write(rollup_deltas.merge)
    check_rollups(store)


def test_a_crash_between_any_two_steps_of_a_merge_merges_nothing(
    store: Store, project_id: int
) -> None:
    def crash() -> None:
        raise Crash

    def merge(conn: Connection) -> int:
        with before_statement(conn, statement, crash):
            return rollup_deltas.merge(conn)

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

    store.write(rollup_deltas.merge)

    check_rollups(store)


@ON_SERVERS
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
            seen.append(store.write(rollup_deltas.merge))

        def work(conn: Connection, at: int = statement, act: Callable[[], None] = second) -> int:
            with before_statement(conn, at, lambda: beside(act)):
                return rollup_deltas.merge(conn)

        assert store.write(work) == 1
        if not seen:
            assert statement >= FEWEST_STATEMENTS
            break
        assert seen == [0]
    check_rollups(store)
