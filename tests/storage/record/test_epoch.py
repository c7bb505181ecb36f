"""A server notices within a second that its database was restored."""

from ett_service.storage.engine.backup import renew_epoch
from ett_service.storage.engine.store import Store
from ett_service.storage.record.epoch import EVERY_US, StoreEpoch
from ett_service.storage.record.events import store_epoch
from tests.builders.clock import Clock
from tests.builders.jobs import wire_event
from tests.builders.servers.application import Service


def test_it_is_read_again_after_a_second_and_whenever_the_clock_goes_back(store: Store) -> None:
    clock = Clock()
    epoch = StoreEpoch(clock)

    def both() -> tuple[str, str]:
        with store.reading() as conn:
            return epoch.of(conn), store_epoch(conn)

    first = both()
    store.write(renew_epoch)
    seen = []
    for elapsed_us in (EVERY_US - 1, 1, -EVERY_US):
        clock.now_us += elapsed_us
        seen.append(both())
        store.write(renew_epoch)

    assert seen[0][0] == first[0] == first[1]
    assert [answered == stored for answered, stored in seen] == [False, True, True]


def test_an_acknowledgement_names_the_store_that_has_the_events(service: Service) -> None:
    first = service.send([wire_event("heartbeat", 1)]).json()["store_epoch"]
    service.store.write(renew_epoch)
    service.clock.now_us += EVERY_US

    second = service.send([wire_event("heartbeat", 2)]).json()["store_epoch"]

    with service.store.reading() as conn:
        assert second == store_epoch(conn)
    assert second != first
