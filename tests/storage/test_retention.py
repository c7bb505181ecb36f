"""Retention: what goes of a job, what stays, what keeps it from going, and what that frees."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, insert, select, update

from ett_service.aggregation.verify import verify, verify_rollups
from ett_service.core.events import AttemptEnded, Event, Exclusion, JobEnded, JobFacts
from ett_service.core.intervals import DAY_US
from ett_service.core.ledger.attempts.lifetimes import DEFAULT_LIMITS
from ett_service.core.words import Outcome
from ett_service.ingest.accept import accept as accept_batch
from ett_service.ingest.decode import Batch
from ett_service.ingest.members import arrival
from ett_service.ingest.refusals import Code
from ett_service.storage import retention, sizes
from ett_service.storage.engine.store import Store
from ett_service.storage.jobs import batches, ledgers
from ett_service.storage.receivers.deliveries import DeliveryState
from ett_service.storage.record import corrections, dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from ett_service.storage.record.pruned import RecordPruned, pruned_us
from ett_service.storage.retention import Kept, Prunable, delete_job, prune_deliveries
from ett_service.storage.schema import delivery, event, job_ledger, producer, segment, store_size
from tests.builders.clock import MINUTE, NOON, RECEIVED_AT
from tests.builders.databases.engines import clear
from tests.builders.databases.statements import FEWEST_STATEMENTS
from tests.builders.drawn.timelines import Timeline, timelines
from tests.builders.ledgers import deliver, every_job, refreshed, running_job, stored
from tests.builders.receivers.deliveries import put
from tests.builders.record import event as fact
from tests.builders.record import progress
from tests.builders.rollups import stored_rollups
from tests.storage.test_deletion import ON_POSTGRESQL, during

LATER = max(NOON, RECEIVED_AT) + 90 * DAY_US
BEFORE = LATER - 30 * DAY_US

DAY = LATER - LATER % DAY_US


def closed_job() -> list[Event]:
    return [
        *running_job(),
        fact(AttemptEnded, NOON + 20 * MINUTE, outcome=Outcome.COMPLETED),
        fact(JobEnded, NOON + 20 * MINUTE, outcome=Outcome.COMPLETED),
    ]


def fold(store: Store, key: JobKey, events: Sequence[Event]) -> JobKey:
    deliver(store, key, events, offsets={"p": 0})
    refreshed(store, key, LATER)
    return key


def prune(store: Store, before_us: int = BEFORE, rows: int = retention.ROWS_AT_ONCE) -> int:
    """Prune what can be, and return how many jobs that were."""
    begun = store.write(lambda conn: retention.begin(conn, before_us, LATER))
    while store.write(lambda conn: retention.advance(conn, rows)):
        pass
    return begun


def rows_left(store: Store, key: JobKey) -> list[int]:
    with store.reading() as conn:
        return [
            conn.execute(
                select(func.count()).where(
                    table.c.project_id == key.project_id, table.c.job == key.job
                )
            ).scalar_one()
            for table in (event, segment, producer)
        ]


def test_the_record_of_a_closed_job_goes_and_its_results_stay(
    store: Store, project_id: int
) -> None:
    key = fold(store, JobKey(project_id, "closed"), closed_job())
    open_key = fold(store, JobKey(project_id, "open"), [*closed_job()[:-2], progress(70, LATER)])
    before, rollups, left = stored(store, key), stored_rollups(store), rows_left(store, open_key)
    with store.reading() as conn:
        expected = Prunable(1, len(closed_job()))
        assert retention.prunable(conn, BEFORE) == expected

    assert prune(store, rows=7) == 1

    assert rows_left(store, key) == [0, 0, 0]
    assert rows_left(store, open_key) == left
    assert before
    assert stored(store, key) == replace(before, segments=())
    assert stored_rollups(store) == rollups
    assert prune(store) == 0


def test_steps_delete_no_more_rows_than_they_may_and_go_on_where_one_ended(
    store: Store, project_id: int
) -> None:
    keys = [fold(store, JobKey(project_id, name), closed_job()) for name in "ab"]
    rows = sum(map(sum, (rows_left(store, key) for key in keys)))
    store.write(lambda conn: retention.begin(conn, BEFORE, LATER))

    steps = []
    while step := store.write(lambda conn: retention.advance(conn, 10)):
        steps.append(step)
        assert store.write(lambda conn: retention.begin(conn, BEFORE, LATER)) == 0

    assert sum(steps) == rows
    assert steps[:-1] == [10] * (len(steps) - 1)


def test_what_is_heard_of_or_not_folded_or_young_is_kept(store: Store, project_id: int) -> None:
    key = fold(store, JobKey(project_id, "closed"), closed_job())
    assert prune(store, before_us=NOON) == 0
    assert prune(store, before_us=RECEIVED_AT) == 0
    deliver(store, key, [progress(99, NOON + 15 * MINUTE)])
    assert prune(store) == 0
    refreshed(store, key, LATER)
    outdated = update(job_ledger).values(formula_version=0)
    store.write(lambda conn: conn.execute(outdated))
    assert prune(store) == 0
    store.write(lambda conn: dirty_marks.outdate(conn, -1))
    refreshed(store, key, LATER)
    assert prune(store) == 1


def test_a_pruned_job_takes_no_events_and_the_others_of_the_batch_are_accepted(
    store: Store, project_id: int
) -> None:
    key = fold(store, JobKey(project_id, "closed"), closed_job())
    prune(store)
    batch = Batch(
        arrivals=(
            arrival(0, "closed", progress(98, LATER)),
            arrival(1, "another", progress(1, LATER)),
        )
    )

    verdicts = store.write(
        lambda conn: accept_batch(conn, batch, project_id=project_id, now_us=LATER)
    )

    assert (verdicts.accepted, verdicts.duplicate, verdicts.marked) == (1, 0, ("another",))
    (refusal,) = verdicts.errors
    assert (refusal.code, refusal.index, refusal.pointer) == (Code.TOO_OLD, 0, "/events/0/job")
    assert rows_left(store, key)[0] == 0


def test_a_pruned_job_takes_no_correction_and_is_not_folded_again(
    store: Store, project_id: int
) -> None:
    key = fold(store, JobKey(project_id, "closed"), closed_job())
    prune(store)
    before = stored(store, key)
    with pytest.raises(RecordPruned, match="pruned on 20"):
        store.write(
            lambda conn: corrections.put_exclusion(
                conn, key, [Exclusion()], why="late", made_by="", now_us=LATER
            )
        )
    store.write(lambda conn: dirty_marks.outdate(conn, -1))
    with store.reading() as conn:
        assert dirty_marks.waiting(conn, LATER, 9).due == []
        assert (batches.count(conn), batches.pruned(conn)) == (0, 1)
    store.write(lambda conn: dirty_marks.mark(conn, key, LATER))

    assert refreshed(store, key, LATER) is None

    assert stored(store, key) == before
    assert list(verify(store)) == []


def test_a_job_that_is_deleted_amid_its_pruning_leaves_its_name_to_another(
    store: Store, project_id: int
) -> None:
    key = fold(store, JobKey(project_id, "closed"), closed_job())
    store.write(lambda conn: retention.begin(conn, BEFORE, LATER))
    store.write(lambda conn: delete_job(conn, key))
    fold(store, key, closed_job())

    assert store.write(retention.advance) == 0

    assert rows_left(store, key)[0] == len(closed_job())
    with store.reading() as conn:
        assert retention.going(conn) == []


@ON_POSTGRESQL
def test_events_that_come_amid_the_pruning_keep_the_job_or_are_refused(
    store: Store, project_id: int
) -> None:
    for place in itertools.count():
        name = f"amid-{place}"
        key = fold(store, JobKey(project_id, name), closed_job())
        late = Batch(arrivals=(arrival(0, name, progress(98, LATER)),))
        send = partial(accept_batch, batch=late, project_id=project_id, now_us=LATER)
        begin = partial(retention.begin, before_us=BEFORE, now_us=LATER)

        came = during(store, place, begin, send)

        if came is None:
            assert place >= FEWEST_STATEMENTS
            break
        with store.reading() as conn:
            is_pruned = pruned_us(conn, key) is not None
        assert came.result().rejected == is_pruned
        while store.write(retention.advance):
            pass
        assert rows_left(store, key)[0] == (0 if is_pruned else len(closed_job()) + 1)


@ON_POSTGRESQL
def test_a_pruning_amid_the_arrival_of_events_finds_the_job_heard_of(
    store: Store, project_id: int
) -> None:
    for place in itertools.count(1):
        name = f"amid-{place}"
        key = fold(store, JobKey(project_id, name), closed_job())
        late = Batch(arrivals=(arrival(0, name, progress(98, LATER)),))
        send = partial(accept_batch, batch=late, project_id=project_id, now_us=LATER)
        begin = partial(retention.begin, before_us=BEFORE, now_us=LATER)

        begun = during(store, place, send, begin)

        if begun is None:
            assert place > 1
            break
        begun.result()
        while store.write(retention.advance):
            pass
        with store.reading() as conn:
            is_pruned = pruned_us(conn, key) is not None
        assert rows_left(store, key)[0] == (0 if is_pruned else len(closed_job()) + 1)


_SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
_EXAMPLES = max(8, settings().max_examples // 20)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=_SLOW)
@given(fleet=st.lists(timelines, min_size=1, max_size=3), seed=st.integers(0, 2**32))
def test_whatever_was_pruned_no_sum_differs(
    store: Store, fleet: Sequence[Timeline], seed: int
) -> None:
    clear(store)
    project_id = store.write(lambda conn: create_project(conn, "research", RECEIVED_AT))
    chance = Random(seed)
    for number, timeline in enumerate(fleet):
        key = JobKey(project_id, f"job-{number}")
        deliver(store, key, timeline.events, timeline.offsets)
        deliver(store, key, [fact(JobFacts, timeline.as_of, team=chance.choice("ab"))])
        refreshed(
            store, key, timeline.as_of + 3 * DAY_US * chance.randrange(5), None, DEFAULT_LIMITS
        )
    rollups, results = stored_rollups(store), _results(store)

    prune(store, before_us=max(RECEIVED_AT, *(each.as_of for each in fleet)) + 99 * DAY_US)

    assert stored_rollups(store) == rollups
    assert _results(store) == results
    days = list(verify_rollups(store))
    assert [difference for day in days for difference in day.differences] == []
    with store.reading() as conn:
        pruned = batches.pruned(conn)
    assert len(list(verify(store))) == len(fleet) - pruned


def _results(store: Store) -> list[object]:
    with store.reading() as conn:
        return [ledgers.job_ledger(conn, *key) for key in every_job(conn)]


def test_tables_are_measured_with_their_indexes(store: Store, project_id: int) -> None:
    with store.reading() as conn:
        before = sizes.table_sizes(conn)["event"]
    for number in range(20):
        fold(store, JobKey(project_id, f"job-{number}"), closed_job())
    with store.reading() as conn:
        measured = sizes.table_sizes(conn)["event"]
        held = conn.execute(select(func.sum(func.length(event.c.body))))
        held_bytes = held.scalar_one()
    assert measured >= before  # PostgreSQL fills again what others have left
    assert measured > held_bytes > 0


def test_a_week_of_growth_follows_from_the_days_that_were_measured(
    store: Store, project_id: int
) -> None:
    fold(store, JobKey(project_id, "closed"), closed_job())
    with store.reading() as conn:
        measured = sizes.measure_store(conn, LATER, Kept(30 * DAY_US, None))
    assert measured.week_bytes is None
    total = measured.total_bytes
    rows = [
        {"day_us": DAY - 9 * DAY_US, "name": "event", "bytes": 1},
        {"day_us": DAY - 2 * DAY_US, "name": "event", "bytes": total - 1_000},
        {"day_us": DAY - 2 * DAY_US, "name": "job", "bytes": 600},
    ]
    store.write(lambda conn: conn.execute(insert(store_size), rows))

    with store.reading() as conn:
        measured = sizes.measure_store(conn, LATER, Kept(30 * DAY_US, None))

    grown = measured.total_bytes - (total - 1_000 + 600)
    assert measured.week_bytes == grown * 7 // 2


def test_pruning_would_free_the_share_of_the_jobs_that_are_old_enough(
    store: Store, project_id: int
) -> None:
    for name in "ab":
        fold(store, JobKey(project_id, name), closed_job())
    fold(store, JobKey(project_id, "young"), [*closed_job()[:-2]])
    with store.reading() as conn:
        all_of_it = sizes.measure_store(conn, LATER, Kept(0, None))
        none_of_it = sizes.measure_store(conn, LATER, Kept(200 * DAY_US, None))

    record_bytes = all_of_it.tables["event"] + all_of_it.tables["segment"]
    assert all_of_it.prunable.jobs == 3
    assert all_of_it.prunable_bytes == record_bytes
    assert (none_of_it.prunable.jobs, none_of_it.prunable_bytes) == (0, 0)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_what_pruning_frees_of_a_large_file_is_unknown(
    store: Store, project_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold(store, JobKey(project_id, "old"), closed_job())
    monkeypatch.setattr(sizes, "_MOST_SCANNED", 1 << 10)
    with store.reading() as conn:
        measured = sizes.measure_store(conn, LATER, Kept(0, 0))
        hours_stay = sizes.measure_store(conn, LATER, Kept(0, None))

    assert set(measured.tables) == {"all"}
    assert (measured.prunable.jobs, measured.all_prunable_bytes) == (1, None)
    assert (measured.prunable_bytes, measured.prunable_hourly_bytes) == (None, None)
    assert hours_stay.prunable_hourly_bytes == 0


def test_the_latest_sizes_of_a_day_are_kept(store: Store) -> None:
    for n_bytes in (3, 5):
        store.write(partial(sizes.record_sizes, tables={"event": n_bytes}, now_us=DAY + n_bytes))
    with store.reading() as conn:
        assert conn.execute(store_size.select()).all() == [(DAY, "event", 5)]


def left(store: Store) -> set[str]:
    with store.reading() as conn:
        return {row.fingerprint for row in conn.execute(select(delivery.c.fingerprint))}


def finished(store: Store, project_id: int, done: DeliveryState, at_us: int) -> None:
    """Store a delivery in that state, named after it, as of an instant."""
    name = done.value or "waiting"
    put(store, project_id, ["a"], NOON, fingerprint=name)
    end = update(delivery).where(delivery.c.fingerprint == name)
    done_us = None if done is DeliveryState.WAITING else at_us
    store.write(lambda conn: conn.execute(end.values(done=done.value, done_us=done_us)))


def test_only_what_is_over_is_removed(store: Store, project_id: int) -> None:
    for done in DeliveryState:
        finished(store, project_id, done, NOON)
    assert store.write(partial(prune_deliveries, before_us=NOON, most=10)) == 0
    assert store.write(partial(prune_deliveries, before_us=NOON + DAY_US, most=10)) == 3
    assert left(store) == {"waiting", "repeating"}


def test_so_many_are_removed_at_once(store: Store, project_id: int) -> None:
    for done in (DeliveryState.SENT, DeliveryState.DEAD, DeliveryState.SUPERSEDED):
        finished(store, project_id, done, NOON)
    assert store.write(partial(prune_deliveries, before_us=NOON + DAY_US, most=2)) == 2
    assert len(left(store)) == 1
