"""What was delivered long ago goes; what is still to be sent stays."""

from functools import partial

from sqlalchemy import select, update

from ett_service.core.intervals import DAY_US
from ett_service.storage.engine.store import Store
from ett_service.storage.receivers.deliveries import DeliveryState
from ett_service.storage.receivers.pruning import prune
from ett_service.storage.schema import delivery
from tests.builders.clock import NOON
from tests.builders.receivers.deliveries import put


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
    assert store.write(partial(prune, before_us=NOON, most=10)) == 0
    assert store.write(partial(prune, before_us=NOON + DAY_US, most=10)) == 3
    assert left(store) == {"waiting", "repeating"}


def test_so_many_are_removed_at_once(store: Store, project_id: int) -> None:
    for done in (DeliveryState.SENT, DeliveryState.DEAD, DeliveryState.SUPERSEDED):
        finished(store, project_id, done, NOON)
    assert store.write(partial(prune, before_us=NOON + DAY_US, most=2)) == 2
    assert len(left(store)) == 1
