"""A job's events come back as they were sent."""

import pytest

from ett_service.core.intervals import rfc3339
from tests.api.conftest import Service
from tests.stories import at, failing_job, told

EVENTS = "/v1/jobs/llm-70b/events"


def test_events_come_back_with_their_members_and_when_they_came(service: Service) -> None:
    event = told("span", 3, phase="launcher_init", stage="pre_train", start=at(1), rank=0)
    service.told([event])
    page = service.get(EVENTS)
    received = {"received_at": rfc3339(service.clock.us), "attempt": 0}
    sent = {name: value for name, value in event.items() if name != "job"}
    assert page == {"job": "llm-70b", "events": [{**sent, **received}], "next_cursor": None}


def test_an_offset_from_utc_comes_back_as_utc(service: Service) -> None:
    service.told([{**told("heartbeat", 0), "at": "2026-03-01T13:00:00.5+01:00"}])
    assert service.get(EVENTS)["events"][0]["at"] == "2026-03-01T12:00:00.500000Z"


@pytest.mark.parametrize("limit", [1, 7, 22, 23, 24])
def test_pages_of_events_hold_each_event_once_in_order(service: Service, limit: int) -> None:
    sent = failing_job()
    service.told(sent)
    page = service.get(EVENTS, limit=limit)
    events = page["events"]
    while page["next_cursor"]:
        page = service.get(EVENTS, limit=limit, cursor=page["next_cursor"])
        assert page["events"]
        events += page["events"]
    assert {event["id"] for event in events} == {event["id"] for event in sent}
    assert len(events) == len(sent)
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)


@pytest.mark.parametrize("cursor", ["abc", "WzEsMl0", "eA", "bnVsbA"])
def test_a_cursor_that_is_none_is_refused(service: Service, cursor: str) -> None:
    service.told([told("heartbeat", 0)])
    assert service.get(EVENTS, 422, cursor=cursor)["errors"][0]["code"] == "bad_cursor"
