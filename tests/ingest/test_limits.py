"""Every limit is where it is documented, and can be set."""

import json

import pytest

from ett_service.ingest.refusals import BodyTooLarge
from ett_service.ingest.wire import Limits
from tests.builders.batches import batch, read
from tests.builders.clock import NOON
from tests.builders.record import wire


def test_the_defaults_are_those_of_the_public_page() -> None:
    assert Limits() == Limits(8 << 20, 64 << 20, 10_000, 16 << 10, 8, 86_400_000_000)


def test_an_event_may_be_as_large_as_the_limit_and_no_larger() -> None:
    event = json.dumps(wire(attributes={"log": "x" * 500})).encode()
    body = b'{"events":[' + event + b"]}"

    assert len(read(body, max_event_bytes=len(event)).arrivals) == 1
    (refusal,) = read(body, max_event_bytes=len(event) - 1).refusals
    assert (str(refusal.code), refusal.pointer) == ("too_large", "/events/0")


def test_depth_and_future_can_be_set() -> None:
    deep = json.dumps({"events": [wire(attributes={"a": [1]})]}).encode()
    late = json.dumps({"events": [wire()]}).encode()

    assert [str(each.code) for each in read(deep, max_depth=2).refusals] == ["too_deep"]
    assert len(read(deep, max_depth=3).arrivals) == 1
    early = NOON - 1_000_000
    refused = read(late, now_us=early, max_future_us=999_999).refusals
    assert [str(each.code) for each in refused] == ["timestamp_out_of_range"]
    assert len(read(late, now_us=early, max_future_us=1_000_000).arrivals) == 1


def test_a_batch_may_hold_ten_thousand_events_and_no_more() -> None:
    assert len(batch(*[wire()] * 10_000).arrivals) == 10_000
    with pytest.raises(BodyTooLarge):
        batch(*[wire()] * 10_001)
