"""Of duplicate keys the last counts, around the events as in them."""

import pytest

from ett_service.ingest.refusals import BadBatch, MalformedBody
from tests.builders.batches import read

EVENT = b'{"type":"heartbeat","job":"j","at":"2026-03-01T12:00:00Z"}'


def test_the_last_of_two_batch_ids_counts_whatever_the_first_was() -> None:
    for first in (b"3", b'"other"', b"null", b"[[]]"):
        taken = read(b'{"batch_id":%b,"batch_id":"b","events":[%b]}' % (first, EVENT))
        assert (taken.batch_id, len(taken.arrivals)) == ("b", 1)


def test_the_last_events_count() -> None:
    assert len(read(b'{"events":3,"events":[%b]}' % EVENT).arrivals) == 1
    with pytest.raises(BadBatch) as refused:
        read(b'{"events":[%b],"events":3}' % EVENT)
    assert refused.value.refusal.pointer == "/events"


def test_what_is_no_json_stays_so_beside_a_duplicate_key() -> None:
    with pytest.raises(MalformedBody):
        read(b'{"batch_id":3,"batch_id":"b","events":[NaN]}')
    with pytest.raises(BadBatch):
        read(b'{"batch_id":3,"batch_id":"b","events":[' + EVENT + b'],"extra":1}')
