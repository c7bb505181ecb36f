"""Of several workers one leads, and it knows when it no longer does."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, update

from ett_service.storage.engine import lease as leases
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from ett_service.storage.schema import lease
from ett_service.worker.regressions import LeaseThread
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.worker import without

T = TypeVar("T")


class Away:
    """A store whose database does not answer once it is away."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_away = False

    def write(self, work: Callable[[Connection], T]) -> T:
        """Write, unless it is away."""
        if self.is_away:
            raise StorageUnavailable("It is away.")
        return self.store.write(work)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@pytest.fixture
def pair(store: Store) -> tuple[LeaseThread, LeaseThread]:
    """Return two that want the same lease, one after the other."""
    return LeaseThread(store, "evaluator", 600), LeaseThread(store, "evaluator", 600)


def run_out(conn: Connection) -> None:
    """Let every lease have ended."""
    conn.execute(update(lease).values(expires_us=0))


def test_one_of_two_leads(pair: tuple[LeaseThread, LeaseThread]) -> None:
    for thread in (*pair, *pair):
        thread.renew()
    assert [thread.epoch for thread in pair] == [1, None]


def test_the_other_follows_once_it_ran_out_and_the_first_learns_of_it(
    store: Store, pair: tuple[LeaseThread, LeaseThread]
) -> None:
    first, other = pair
    first.renew()
    store.write(run_out)
    other.renew()
    first.renew()
    assert (first.epoch, other.epoch) == (None, 2)


def test_who_resigns_leaves_it_to_the_other_at_once(pair: tuple[LeaseThread, LeaseThread]) -> None:
    first, other = pair
    first.renew()
    first.resign()
    other.renew()
    assert (first.epoch, other.epoch) == (None, 2)


def test_a_worker_that_starts_again_has_another_epoch(store: Store) -> None:
    epochs = []
    for _ in range(3):
        started = LeaseThread(store, "evaluator", 600)
        started.renew()
        epochs.append(started.epoch)
        started.resign()
    assert epochs == [1, 2, 3]


def test_without_the_database_nobody_leads_for_long(store: Store) -> None:
    away = Away(store)
    leading = LeaseThread(away, "evaluator", 0.3)
    leading.renew()
    away.is_away = True
    with pytest.raises(StorageUnavailable):
        leading.renew()
    assert wait_for(lambda: leading.epoch is None)


def test_its_thread_outlives_trouble_and_lets_go_in_the_end(store: Store) -> None:
    leading = LeaseThread(store, "evaluator", 0.3)
    with without(store, "lease"):
        leading.start()
    assert wait_for(lambda: leading.epoch is not None)
    leading.stop_soon()
    leading.join()
    # On a busy machine it may have lost it for a moment, and taken it again.
    epoch = store.write(partial(leases.take, name="evaluator", holder="other", seconds=1))
    assert epoch is not None
    assert epoch >= 2
