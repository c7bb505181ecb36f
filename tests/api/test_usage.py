"""What each key sends is counted in memory, written at times, and lost by no failed write."""

import pytest

from ett_service.api.access import UsageCounts, UsageThread
from ett_service.storage.engine.errors import StorageUnavailable
from ett_service.storage.engine.store import Store
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.jobs import failing_job
from tests.builders.servers.application import Service


def counted(service: Service, window: str = "hour", **headers: str) -> list[dict[str, object]]:
    service.usage.write(service.store, service.clock.now_us)
    answer = service.client.get("/v1/key-usage", params={"window": window}, headers=headers)
    keys: list[dict[str, object]] = answer.json()["keys"]
    return keys


def test_requests_events_and_bytes_are_counted_by_key(service: Service) -> None:
    events = failing_job()
    body = service.send(events).request.content
    service.client.get("/v1/jobs")
    (usage,) = counted(service)

    assert usage["prefix"] == service.client.headers["Authorization"][7:19]
    assert (usage["requests"], usage["refused"]) == (2, 0)
    assert (usage["events"], usage["bytes"]) == (len(events), len(body))
    assert usage["last_used_at"] == "2026-03-01T13:00:00.000000Z"


@ON_ONE_ENGINE
def test_duplicates_are_no_new_events_and_strangers_no_keys(service: Service) -> None:
    events = failing_job()
    for _ in range(2):
        service.send(events)
    service.client.get("/v1/jobs", headers={"Authorization": "Bearer nothing"})
    (usage,) = counted(service)

    assert (usage["requests"], usage["events"]) == (2, len(events))


@ON_ONE_ENGINE
def test_a_reader_sees_the_keys_of_its_project(service: Service) -> None:
    others = {"Authorization": f"Bearer {service.key({'read'}, project='other')}"}
    for headers in (others, {}):
        service.client.get("/v1/jobs", headers=headers)

    assert {usage["project"] for usage in counted(service)} == {"research", "other"}
    assert {usage["project"] for usage in counted(service, **others)} == {"other"}


@ON_ONE_ENGINE
def test_what_could_not_be_written_is_written_later(store: Store) -> None:
    class Failing:
        def write(self, _: object) -> None:
            raise StorageUnavailable("gone")

    counts = UsageCounts()
    counts.count("ett_aaaaaaaa", 200, events=1, n_bytes=10, now_us=NOON)
    with pytest.raises(StorageUnavailable):
        counts.write(Failing(), NOON)  # type: ignore[arg-type]
    counts.count("ett_aaaaaaaa", 503, events=0, n_bytes=5, now_us=NOON)
    with UsageThread(counts, store, lambda: NOON):
        pass
    with store.reading() as conn:
        rows = conn.exec_driver_sql("SELECT requests, refused, events, bytes FROM key_usage").all()

    assert [tuple(row) for row in rows] == [(2, 1, 1, 15)]
