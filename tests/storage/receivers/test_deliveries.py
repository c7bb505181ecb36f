"""Deliveries as people look at them, and dead ones sent after all."""

from functools import partial

from sqlalchemy import update

from ett_service.storage.engine.store import Store
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers.deliveries import DeliveryFilter, DeliveryState
from ett_service.storage.schema import delivery
from tests.builders.clock import NOON
from tests.builders.receivers.deliveries import deliveries_in, put_one


def mark_dead(store: Store) -> None:
    dead = update(delivery).values(done=DeliveryState.DEAD.value, done_us=NOON, tries=10)
    store.write(lambda conn: conn.execute(dead))


def replayed(store: Store, query: DeliveryFilter) -> int:
    return store.write(partial(deliveries.replay, query=query, now_us=NOON + 99))


def test_a_page_of_deliveries_goes_on_where_the_one_before_ended(
    store: Store, project_id: int
) -> None:
    for version in range(5):
        put_one(store, project_id, f"r{version}", "f", version)

    with store.reading() as conn:
        first = deliveries.listing(conn, DeliveryFilter(), limit=3)
        last = (first[-1].made_us, first[-1].id)
        second = deliveries.listing(conn, DeliveryFilter(), limit=3, after=last)

    assert [delivery.version for delivery in first + second] == [4, 3, 2, 1, 0]


def test_deliveries_are_found_by_whose_they_are_and_how_they_stand(
    store: Store, project_id: int
) -> None:
    put_one(store, project_id, "a", "f", 1)
    put_one(store, project_id, "a", "f", 2)
    put_one(store, project_id, "b", "f", 3)

    assert len(deliveries_in(store, project_id=project_id)) == 3
    assert deliveries_in(store, project_id=project_id + 1) == []
    assert [
        delivery.version
        for delivery in deliveries_in(store, receiver="a", done=(DeliveryState.WAITING,))
    ] == [2]
    (delivery,) = deliveries_in(store, receiver="b", owner=0)
    assert deliveries_in(store, ids=(delivery.id,)) == [delivery]


def test_what_is_dead_is_sent_after_all_under_its_id(store: Store, project_id: int) -> None:
    put_one(store, project_id, "a", "f", 1)
    (before,) = deliveries_in(store)
    mark_dead(store)

    assert replayed(store, DeliveryFilter(ids=(before.id,))) == 1

    (after,) = deliveries_in(store)
    assert (after.id, after.done, after.due_us, after.tries) == (
        before.id,
        DeliveryState.WAITING,
        NOON + 99,
        0,
    )
    assert replayed(store, DeliveryFilter(ids=(before.id,))) == 0


def test_of_dead_deliveries_of_one_alert_only_the_latest_is_sent_after_all(
    store: Store, project_id: int
) -> None:
    for version in (1, 2, 3):
        put_one(store, project_id, "a", "f", version)
    put_one(store, project_id, "a", "g", 1)
    mark_dead(store)

    assert replayed(store, DeliveryFilter(receiver="a")) == 2

    stands = {
        (delivery.fingerprint, delivery.version): delivery.done for delivery in deliveries_in(store)
    }
    assert stands == {
        ("f", 1): DeliveryState.SUPERSEDED,
        ("f", 2): DeliveryState.SUPERSEDED,
        ("f", 3): DeliveryState.WAITING,
        ("g", 1): DeliveryState.WAITING,
    }
