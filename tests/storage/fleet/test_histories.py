"""Many jobs' ledgers in a few statements: the same as one by one."""

import dataclasses
from collections.abc import Sequence

from ett_service.core.events import Exclusion
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.histories import histories
from ett_service.storage.jobs import ledgers
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.fleet import calm_job, failing_job, store_job


def test_a_history_is_what_is_stored_of_the_job(store: Store, project_id: int) -> None:
    other = store.write(lambda conn: create_project(conn, "other", RECEIVED_AT))
    keys = [
        store_job(
            store, project_id, "calm", calm_job(NOON, compiling=5, training=50, publishing=3)
        ),
        store_job(store, project_id, "fails", failing_job(NOON, team="a")),
        store_job(store, other, "fails", failing_job(NOON + HOUR)),
    ]
    absent = JobKey(project_id, "absent")

    with store.reading() as conn:
        stored = list(histories(conn, [*keys[:1], absent, *keys[1:]]))
        stored_ledgers = []
        for key in keys:
            ledger = ledgers.job_ledger(conn, *key)
            assert ledger is not None
            segments = tuple(ledgers.segments(conn, *key))
            stored_ledgers.append(
                dataclasses.replace(ledger, shares=(), wait_shares=(), segments=segments)
            )

    assert [history.key for history in stored] == keys
    assert [history.ledger for history in stored] == stored_ledgers
    assert [history.exclusions for history in stored] == [(), (), ()]


def test_only_exclusions_that_stand_are_part_of_it(store: Store, project_id: int) -> None:
    key = store_job(store, project_id, "calm", calm_job(NOON, training=50))

    def put(windows: Sequence[Exclusion]) -> None:
        store.write(
            lambda conn: corrections.put_exclusion(
                conn, key, windows, why="test", made_by="ett_0", now_us=RECEIVED_AT
            )
        )

    put([Exclusion(None, NOON)])
    put([Exclusion(NOON, None), Exclusion(NOON - HOUR, NOON - MINUTE)])

    with store.reading() as conn:
        [history] = histories(conn, [key])
    assert set(history.exclusions) == {Exclusion(NOON, None), Exclusion(NOON - HOUR, NOON - MINUTE)}
