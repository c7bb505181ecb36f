"""One holder at a time, by the database's clock, and no write of a former one."""

import time
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import Connection, select, update

from ett_service.core.intervals import HOUR_US, SECOND_US
from ett_service.storage.engine import lease as leases
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.lease import LeaseLost
from ett_service.storage.engine.store import Store
from ett_service.storage.schema import lease

ON_POSTGRESQL = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


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
