"""Workers share the slots: each job has one, and each slot at most one worker."""

from functools import partial
from hashlib import md5

import pytest
from sqlalchemy import Connection, select, update

from ett_service.storage.engine import lease as leases
from ett_service.storage.engine.lease import SLOTS
from ett_service.storage.engine.store import Store
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.schema import dirty, job_ledger, lease
from tests.builders.clock import NOON
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import progress

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)

LONG_S = 600.0


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
        return [*dirty_marks.waiting(conn, 0, 1000, of_slots).last_marked_us]


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
