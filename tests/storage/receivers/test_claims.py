"""Claims: one delivery on its way to a receiver, recorded once, and never lost."""

from contextlib import closing
from functools import partial

import pytest

from ett_service.core.intervals import SECOND_US
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.receivers import deliveries
from ett_service.storage.receivers.deliveries import (
    Claim,
    DeliveryState,
    DeliveryTry,
    Message,
    TryResult,
)
from tests.builders.clock import NOON
from tests.builders.receivers.deliveries import deliveries_in, put_one

LATER = NOON + 10 * SECOND_US


def claimed(store: Store, now_us: int = NOON + SECOND_US, most: int = 16) -> list[Claim]:
    claim = partial(deliveries.claim, now_us=now_us, until_us=now_us + 60 * SECOND_US, most=most)
    return store.write(claim)


def settled(done: DeliveryState, due_us: int = LATER, **more: object) -> TryResult:
    tried = DeliveryTry(NOON, 5, 200 if done is DeliveryState.SENT else 500, "")
    return TryResult(tried, done, due_us, tries=1, failures=1, **more)  # type: ignore[arg-type]


def recorded(store: Store, claim: Claim, how: TryResult) -> bool:
    return store.write(
        partial(deliveries.record, claim=claim, result=how, now_us=NOON + 2 * SECOND_US)
    )


def ready_us(store: Store) -> int | None:
    with store.reading() as conn:
        return deliveries.ready_us(conn)


def test_of_one_receiver_one_delivery_is_claimed_at_a_time_the_oldest_first(
    store: Store, project_id: int
) -> None:
    for version, fingerprint in enumerate("fgh", 1):
        put_one(store, project_id, "a", fingerprint, version)
    put_one(store, project_id, "b", "f", 9)

    first = claimed(store)

    assert [(claim.receiver, claim.body) for claim in first] == [("a", "f 1"), ("b", "f 9")]
    assert claimed(store) == []


def test_no_more_are_claimed_than_are_asked_for(store: Store, project_id: int) -> None:
    for version in range(5):
        put_one(store, project_id, f"r{version}", "f", version)

    assert [claim.receiver for claim in claimed(store, most=3)] == ["r0", "r1", "r2"]


def test_a_claim_that_ran_out_is_claimed_again_under_the_same_id(
    store: Store, project_id: int
) -> None:
    put_one(store, project_id, "a", "f", 1)
    (first,) = claimed(store)

    (again,) = claimed(store, first.until_us)

    assert (again.id, again.body) == (first.id, first.body)


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_nothing_is_claimed_of_a_transaction_that_is_not_committed(
    store: Store, project_id: int
) -> None:
    first_store, other = store, open_store(store.url)
    seen: list[list[Claim]] = []

    def put_and_look(conn: object) -> None:
        deliveries.put(conn, project_id, "f", 2, [Message(0, "a", "2")], NOON + 2)  # type: ignore[arg-type]
        seen.append(claimed(other))

    with closing(other):
        put_one(first_store, project_id, "a", "f", 1)
        first_store.write(put_and_look)
        last = claimed(other)

    assert seen == [[]]  # the older one is locked by what supersedes it, and passed over
    assert [first.body for first in last] == ["2"]


def test_a_delivery_that_failed_is_claimed_again_when_it_is_due(
    store: Store, project_id: int
) -> None:
    put_one(store, project_id, "a", "f", 1)
    (first,) = claimed(store)

    recorded(store, first, settled(DeliveryState.WAITING))

    assert claimed(store, LATER - 1) == []
    assert ready_us(store) == LATER
    (again,) = claimed(store, LATER)
    assert (again.tries, again.failures, len(again.tried)) == (1, 1, 1)


def test_a_receiver_that_is_left_alone_is_sent_nothing_until_it_is_time(
    store: Store, project_id: int
) -> None:
    put_one(store, project_id, "a", "f", 1)
    put_one(store, project_id, "a", "g", 2)
    (first,) = claimed(store)

    recorded(store, first, settled(DeliveryState.WAITING, NOON, open_until_us=LATER))

    assert claimed(store, LATER - 1) == []
    assert ready_us(store) == LATER
    assert len(claimed(store, LATER)) == 1


def test_what_is_superseded_on_its_way_is_not_sent_again_and_shows_whether_it_arrived(
    store: Store, project_id: int
) -> None:
    for name in ("arrives", "fails"):
        put_one(store, project_id, name, "f", 1)
    arrives, fails = claimed(store)
    for name in ("arrives", "fails"):
        put_one(store, project_id, name, "f", 2)

    recorded(store, arrives, settled(DeliveryState.SENT))
    recorded(store, fails, settled(DeliveryState.WAITING, NOON))

    old = {
        delivery.receiver: delivery.done
        for delivery in deliveries_in(store)
        if delivery.version == 1
    }
    assert old == {"arrives": DeliveryState.SENT, "fails": DeliveryState.SUPERSEDED}
    assert [claim.body for claim in claimed(store)] == ["f 2", "f 2"]


def test_a_record_that_comes_after_the_claim_ran_out_does_not_count(
    store: Store, project_id: int
) -> None:
    put_one(store, project_id, "a", "f", 1)
    (slow,) = claimed(store)
    (quick,) = claimed(store, slow.until_us)

    assert recorded(store, quick, settled(DeliveryState.SENT))
    assert not recorded(store, slow, settled(DeliveryState.WAITING))

    assert [delivery.done for delivery in deliveries_in(store)] == [DeliveryState.SENT]


def test_what_is_repeated_comes_again_and_waits_for_nobody(store: Store, project_id: int) -> None:
    put_one(store, project_id, "a", "f", 1)
    (first,) = claimed(store)

    recorded(store, first, settled(DeliveryState.REPEATING))
    (again,) = claimed(store, LATER)
    recorded(store, again, settled(DeliveryState.REPEATING, LATER + 1))
    put_one(store, project_id, "a", "f", 2)

    assert again.id == first.id
    assert [delivery.done for delivery in deliveries_in(store)] == [
        DeliveryState.SENT,
        DeliveryState.WAITING,
    ]


def test_a_receiver_that_wants_nothing_is_sent_nothing_until_it_is_enabled(
    store: Store, project_id: int
) -> None:
    for version, fingerprint in enumerate("fg", 1):
        put_one(store, project_id, "a", fingerprint, version)
    (first,) = claimed(store)

    recorded(store, first, settled(DeliveryState.DEAD, disabled_why="It answered 410."))
    put_one(store, project_id, "a", "h", 3)

    assert [delivery.done for delivery in deliveries_in(store)] == [DeliveryState.DEAD] * 3
    assert ready_us(store) is None
    store.write(partial(deliveries.enable, owner=0, name="a"))
    put_one(store, project_id, "a", "i", 4)
    assert [claim.body for claim in claimed(store)] == ["i 4"]
