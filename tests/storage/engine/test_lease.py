"""One holder at a time, by the database's clock, and no write of a former one."""

import time
from collections.abc import Callable
from functools import partial
from hashlib import md5

import pytest
from sqlalchemy import Connection, select, update

from ett_service.core.intervals import HOUR_US, SECOND_US
from ett_service.storage.engine import lease as leases
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.lease import SLOTS, LeaseLost
from ett_service.storage.engine.store import Store
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import dirty, job_ledger, lease
from tests.builders.clock import NOON
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import progress

ON_POSTGRESQL = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)

LONG_S = 600.0


@pytest.fixture
def take(store: Store) -> Callable[[str], int | None]:
    """Return what takes the lease for an hour."""
    return lambda holder: store.write(
        partial(leases.take, name="evaluator", holder=holder, seconds=3_600)
    )


def run_out(conn: Connection) -> None:
    """Let every lease have ended a second ago."""
    conn.execute(update(lease).values(expires_us=leases.now_us(conn) - SECOND_US))


def hold(store: Store, epoch: int) -> None:
    """Write as the holder of *epoch* does."""
    store.write(partial(leases.hold, name="evaluator", epoch=epoch))


def test_one_takes_it_and_the_others_do_not(take: Callable[[str], int | None]) -> None:
    assert [take("a"), take("b"), take("a"), take("b")] == [1, None, 1, None]


def test_leases_of_other_names_are_others(store: Store, take: Callable[[str], int | None]) -> None:
    take("a")
    other = partial(leases.take, name="publisher", holder="b", seconds=1)
    assert store.write(other) == 1


def test_each_next_holder_has_an_epoch_of_its_own(
    store: Store, take: Callable[[str], int | None]
) -> None:
    epochs = []
    for holder in "abab":
        epochs.append(take(holder))
        store.write(run_out)
    assert epochs == [1, 2, 3, 4]


def test_one_that_ran_out_can_be_renewed_while_nobody_took_it(
    store: Store, take: Callable[[str], int | None]
) -> None:
    take("a")
    store.write(run_out)
    hold(store, 1)
    assert [take("a"), take("b")] == [1, None]


def test_a_lease_ends_by_the_clock_of_the_database(store: Store) -> None:
    before_us = time.time_ns() // 1_000
    store.write(partial(leases.take, name="evaluator", holder="a", seconds=3_600))
    with store.reading() as conn:
        expires_us = conn.execute(select(lease.c.expires_us)).scalar_one()
        now_us = leases.now_us(conn)
    assert abs(expires_us - before_us - HOUR_US) < HOUR_US / 60
    assert expires_us <= now_us + HOUR_US


def test_a_former_holder_cannot_write(store: Store, take: Callable[[str], int | None]) -> None:
    take("a")
    store.write(run_out)
    take("b")

    with pytest.raises(LeaseLost):
        hold(store, 1)
    hold(store, 2)


def test_who_never_had_it_cannot_write(store: Store) -> None:
    with pytest.raises(LeaseLost):
        hold(store, 1)


def test_what_is_resigned_is_free_at_once_and_counts_on(
    store: Store, take: Callable[[str], int | None]
) -> None:
    take("a")
    store.write(partial(leases.resign, name="evaluator", epoch=1))
    assert take("b") == 2


def test_a_former_holder_cannot_resign_for_the_present_one(
    store: Store, take: Callable[[str], int | None]
) -> None:
    take("a")
    store.write(run_out)
    take("b")
    store.write(partial(leases.resign, name="evaluator", epoch=1))
    assert take("c") is None


@ON_POSTGRESQL
def test_nobody_takes_it_while_its_holder_writes(store: Store) -> None:
    store.write(partial(leases.take, name="evaluator", holder="a", seconds=60))
    store.write(run_out)

    def take_impatiently(conn: Connection) -> int | None:
        conn.exec_driver_sql("SET LOCAL lock_timeout = '20ms'")
        return leases.take(conn, "evaluator", "b", 3_600)

    def write(conn: Connection) -> None:
        leases.hold(conn, "evaluator", 1)
        with pytest.raises(StorageUnavailable, match="lock timeout"):
            store.write(take_impatiently)

    store.write(write)
    assert store.write(take_impatiently) == 2


@ON_POSTGRESQL
def test_who_is_paused_while_taking_it_does_not_get_it(store: Store) -> None:
    def pause(conn: Connection) -> None:
        assert leases.take(conn, "evaluator", "a", 0.1) == 1
        assert store.write(partial(leases.take, name="evaluator", holder="b", seconds=60)) == 1

    with pytest.raises(StorageUnavailable):
        store.write(pause)


@ON_POSTGRESQL
def test_who_is_paused_inside_a_write_loses_it(store: Store) -> None:
    store.write(partial(leases.take, name="evaluator", holder="a", seconds=60))
    store.write(run_out)
    take_it = partial(leases.take, name="evaluator", holder="b", seconds=3_600)

    def write(conn: Connection) -> int | None:
        leases.hold(conn, "evaluator", 1, idle_us=10_000)
        return store.write(take_it)

    with pytest.raises(StorageUnavailable):
        store.write(write)
    assert store.write(take_it) == 2


def share(store: Store, holder: str) -> leases.SlotShare:
    return store.write(partial(leases.share_slots, holder=holder, seconds=LONG_S))


def settled(store: Store, *holders: str) -> list[frozenset[int]]:
    """Return what each has once all are content."""
    shares: list[leases.SlotShare] = []
    for _ in range(3):
        shares = [share(store, holder) for holder in holders]
    assert all(each.whole for each in shares)
    return [each.slots for each in shares]


def is_partition(shares: list[frozenset[int]]) -> bool:
    return sorted(slot for each in shares for slot in each) == list(range(SLOTS))


def test_a_worker_that_is_alone_has_all(store: Store) -> None:
    assert share(store, "a") == leases.SlotShare(frozenset(range(SLOTS)), whole=True)


@pytest.mark.parametrize("workers", [2, 3, 5, 8, 10])
def test_workers_share_evenly_and_nobody_has_a_slot_of_another(store: Store, workers: int) -> None:
    shares = settled(store, *map(str, range(workers)))
    assert is_partition(shares)
    assert {len(each) for each in shares} <= {SLOTS // workers, -(-SLOTS // workers)}


def test_more_workers_than_slots_leave_some_without(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "SLOTS", 2)
    assert sorted(map(sorted, settled(store, *"abc"))) == [[], [0], [1]]


def test_a_worker_that_comes_takes_what_the_others_let_go(store: Store) -> None:
    before = settled(store, "a", "b")
    newcomer = share(store, "c")
    assert newcomer == leases.SlotShare(frozenset(), whole=False)

    after = settled(store, "a", "b", "c")

    assert is_partition(after)
    for has, had in zip(after, before, strict=False):
        assert has < had


def test_a_worker_that_leaves_is_followed_at_once(store: Store) -> None:
    settled(store, "a", "b")
    store.write(partial(leases.leave_slots, holder="b"))
    assert len(share(store, "a").slots) == SLOTS
    with store.reading() as conn:
        assert "worker b" not in conn.scalars(select(lease.c.name)).all()


def test_a_worker_that_died_is_followed_when_its_lease_ran_out(store: Store) -> None:
    mine, _ = settled(store, "a", "b")
    assert share(store, "a").slots == mine

    died = update(lease).where(lease.c.holder == "b").values(expires_us=1)
    store.write(lambda conn: conn.execute(died))

    assert len(share(store, "a").slots) == SLOTS


def test_each_holder_of_a_slot_has_an_epoch_of_its_own(store: Store) -> None:
    def epoch() -> int:
        with store.reading() as conn:
            of_slot = select(lease.c.epoch).where(lease.c.name == "slot 07")
            return int(conn.execute(of_slot).scalar_one())

    settled(store, "a")
    first = epoch()
    settled(store, "a")
    assert epoch() == first
    store.write(partial(leases.leave_slots, holder="a"))
    settled(store, "b")
    assert epoch() == first + 1


def test_each_job_is_picked_in_one_slot(store: Store, project_id: int) -> None:
    keys = {JobKey(project_id, f"job-{number} ü") for number in range(200)}
    for key in sorted(keys):
        deliver(store, key, [])

    by_slot = {slot: set(marked(store, slot)) for slot in range(SLOTS)}

    assert sum(map(len, by_slot.values())) == len(keys)
    assert set[JobKey]().union(*by_slot.values()) == keys
    assert sum(map(bool, by_slot.values())) > SLOTS * 3 // 4


def marked(store: Store, *of_slots: int) -> list[JobKey]:
    with store.reading() as conn:
        return dirty_marks.waiting(conn, 0, 1000, of_slots).marked


def test_a_job_falls_due_in_the_slot_in_which_it_is_marked(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, [progress(1)])
    (slot,) = (slot for slot in range(SLOTS) if marked(store, slot))
    refreshed(store, key, NOON)

    def due(conn: Connection, *of_slots: int) -> list[JobKey]:
        conn.execute(update(job_ledger).values(due_us=1))
        return dirty_marks.waiting(conn, NOON, 9, of_slots).due

    assert store.write(lambda conn: due(conn, slot)) == [key]
    assert store.write(lambda conn: due(conn, *(set(range(SLOTS)) - {slot}))) == []


def test_a_slot_follows_from_the_bytes_of_the_key_alone(store: Store, project_id: int) -> None:
    names = ["llm-70b", "a b", "ü"]
    for name in names:
        deliver(store, JobKey(project_id, name), [])
    statement = select(dirty.c.job, leases.slot_of(dirty))
    with store.reading() as conn:
        by_name = dict(map(tuple, conn.execute(statement)))
    assert by_name == {
        name: md5(f"{project_id} {name}".encode(), usedforsecurity=False).digest()[0] % SLOTS
        for name in names
    }
