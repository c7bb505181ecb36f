"""The outbox: it commits with the change that it announces, and the latest state wins."""

from functools import partial

import pytest

from ett_service.storage.engine.store import Store
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers.deliveries import DeliveryState, Message
from tests.builders.clock import NOON
from tests.builders.receivers.deliveries import deliveries_in, put_one


def states(store: Store) -> list[tuple[int, DeliveryState]]:
    return [(delivery.version, delivery.done) for delivery in deliveries_in(store)]


def test_what_is_put_stands_only_with_the_transaction_that_it_reports(
    store: Store, project_id: int
) -> None:
    def give_up(conn: object) -> None:
        deliveries.put(conn, project_id, "f", 1, [Message(0, "a", "body")], NOON)  # type: ignore[arg-type]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(give_up)

    assert deliveries_in(store) == []


def test_what_is_put_twice_is_there_once(store: Store, project_id: int) -> None:
    put_one(store, project_id, "a", "f", 1)
    put_one(store, project_id, "a", "f", 1)

    assert states(store) == [(1, DeliveryState.WAITING)]


def test_what_is_newer_supersedes_what_did_not_arrive(store: Store, project_id: int) -> None:
    put_one(store, project_id, "a", "f", 1)
    put_one(store, project_id, "a", "other", 1)
    put_one(store, project_id, "b", "f", 1)
    put_one(store, project_id, "a", "f", 2)

    states_by_key = {
        (row.receiver, row.fingerprint, row.version): row.done for row in deliveries_in(store)
    }
    assert [key for key, done in states_by_key.items() if done is DeliveryState.SUPERSEDED] == [
        ("a", "f", 1)
    ]


def test_a_new_finding_of_a_series_supersedes_an_old_one_of_a_higher_version(
    store: Store, project_id: int
) -> None:
    put_one(store, project_id, "a", "f", 5)
    store.write(
        partial(
            deliveries.put,
            project_id=project_id,
            fingerprint="f",
            version=1,
            messages=[Message(0, "a", "new")],
            now_us=NOON + 9,
        )
    )

    assert states(store) == [(5, DeliveryState.SUPERSEDED), (1, DeliveryState.WAITING)]
