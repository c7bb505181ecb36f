"""The canonical content of an event is one text a fact; stored rows are found by any key."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Table, insert

from ett_service.core.events import EVENT_TYPES, AttemptEnded, Event, Heartbeat, JobFacts, Progress
from ett_service.core.words import Cause, Outcome, Phase
from ett_service.storage import schema
from ett_service.storage.engine.backup import renew_epoch
from ett_service.storage.engine.store import Store
from ett_service.storage.record.events import (
    EPOCH_EVERY_US,
    StoreEpoch,
    decode_body,
    encode_body,
    events,
    store_epoch,
    stored_contents,
    stored_offsets,
)
from ett_service.storage.schema import job, producer
from tests.builders.clock import NOON, Clock
from tests.builders.jobs import wire_event
from tests.builders.record import event, progress
from tests.builders.servers.application import Service

REQUIRED: dict[str, dict[str, Any]] = {
    "attempt_ended": {"outcome": Outcome.FAILED},
    "job_ended": {"outcome": Outcome.COMPLETED},
    "phase_started": {"phase": Phase.TRAIN_LOOP},
    "phase_ended": {"phase": Phase.TRAIN_LOOP},
    "span": {"phase": Phase.EVALUATION, "start": NOON - 1},
    "progress": {"step": 1},
    "checkpoint_saved": {"step": 1},
    "checkpoint_restored": {"step": 1},
}

ODD = ['quote"', "back\\slash", "é😀", "comma,", "{}", "'"]


def read_again(written: Event) -> Event:
    return decode_body(written.type, written.id, written.at, encode_body(written))


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_of_each_type_is_read_as_it_was_written(kind: str) -> None:
    written: Event = event(EVENT_TYPES[kind], **REQUIRED.get(kind, {}))

    assert read_again(written) == written


@given(
    cycle=st.none() | st.integers(0, 9),
    cause=st.none() | st.sampled_from(Cause),
    message=st.none() | st.text(),
    attributes=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()),
)
def test_an_ending_is_read_as_it_was_written(**members: Any) -> None:
    written = event(AttemptEnded, outcome=Outcome.FAILED, **members)

    assert read_again(written) == written


def test_members_at_their_defaults_are_left_out() -> None:
    assert encode_body(progress(7, id="a", attempt=0, rank=None, attributes={})) == ('{"step":7}')


WHOLE = '{"at":1772366400000000,"host":"n1","id":"P-7","producer":"P","seq":7,"step":7}'


def test_a_row_says_nothing_twice() -> None:
    def body(name: str, **members: Any) -> str:
        return encode_body(progress(7, id=name, producer="P", **members))

    assert body("P-7", seq=7) == '-{"step":7}'
    assert body("P-8", seq=7) == '{"producer":"P","seq":7,"step":7}'
    assert body("P--7", seq=-7) == '{"producer":"P","seq":-7,"step":7}'
    assert body("P-7") == '{"producer":"P","step":7}'


@given(
    producer=st.none() | st.sampled_from(["P", "P-1", "-", "p.q:r_", "é"]),
    seq=st.none() | st.integers(-3, 12),
    data=st.data(),
)
def test_what_an_id_says_of_its_producer_is_read_from_it(
    producer: str | None, seq: int | None, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([f"{producer}-{seq}", "P-1-1", "P--1", "-1", "P", "1"]))
    for written in (
        progress(1, id=name, producer=producer, seq=seq),
        event(Heartbeat, id=name, producer=producer, seq=seq),
    ):
        assert read_again(written) == written


def test_a_body_from_before_is_read_and_is_the_same_fact(store: Store, project_id: int) -> None:
    row = {"project_id": project_id, "job": "llm", "id": "P-7", "type": "progress", "batch": 5}
    add(store, job, {"project_id": project_id, "job": "llm", "received_us": NOON})
    add(store, schema.event, row | {"at_us": NOON, "received_us": NOON, "body": WHOLE})
    now = progress(7, id="P-7", producer="P", seq=7, host="n1")

    with store.reading() as conn:
        contents = stored_contents(conn, project_id, [("llm", "P-7")], but_of_batch=6)
        assert events(conn, project_id, "llm") == [now]

    assert contents == {("llm", "P-7"): ("progress", NOON, encode_body(now))}


def test_the_order_in_which_members_came_does_not_show() -> None:
    first = event(
        JobFacts, id="a", labels={"b": "2", "a": "1"}, attributes={"y": 1, "x": {"d": 1, "c": 2}}
    )
    other = event(
        JobFacts, id="a", labels={"a": "1", "b": "2"}, attributes={"x": {"c": 2, "d": 1}, "y": 1}
    )

    assert encode_body(first) == encode_body(other)


def test_a_rank_of_zero_is_kept() -> None:
    decoded = read_again(progress(0, rank=0, seq=0))

    assert isinstance(decoded, Progress)
    assert (decoded.rank, decoded.seq, decoded.step) == (0, 0, 0)


def test_it_is_read_again_after_a_second_and_whenever_the_clock_goes_back(store: Store) -> None:
    clock = Clock()
    epoch = StoreEpoch(clock)

    def both() -> tuple[str, str]:
        with store.reading() as conn:
            return epoch.of(conn), store_epoch(conn)

    first = both()
    store.write(renew_epoch)
    seen = []
    for elapsed_us in (EPOCH_EVERY_US - 1, 1, -EPOCH_EVERY_US):
        clock.now_us += elapsed_us
        seen.append(both())
        store.write(renew_epoch)

    assert seen[0][0] == first[0] == first[1]
    assert [answered == stored for answered, stored in seen] == [False, True, True]


def test_an_acknowledgement_names_the_store_that_has_the_events(service: Service) -> None:
    first = service.send([wire_event("heartbeat", 1)]).json()["store_epoch"]
    service.store.write(renew_epoch)
    service.clock.now_us += EPOCH_EVERY_US

    second = service.send([wire_event("heartbeat", 2)]).json()["store_epoch"]

    with service.store.reading() as conn:
        assert second == store_epoch(conn)
    assert second != first


def add(store: Store, table: Table, row: dict[str, object]) -> None:
    store.write(lambda conn: conn.execute(insert(table), row))


@pytest.fixture
def with_events(store: Store, project_id: int) -> Store:
    of_project: dict[str, object] = {"project_id": project_id}
    for name in ODD:
        of_job = of_project | {"job": name}
        fact = {"id": "a", "type": "heartbeat", "at_us": 1, "batch": 5, "body": f"<{name}>"}
        add(store, job, of_job | {"received_us": NOON})
        add(store, schema.event, of_job | fact | {"received_us": NOON})
        add(store, producer, of_job | {"producer": name, "offset_us": len(name)})
    return store


def test_contents_are_found_by_job_and_id_but_those_of_the_batch_itself(
    with_events: Store, project_id: int
) -> None:
    ids = [(name, each) for name in ODD for each in ("a", "b")]
    with with_events.reading() as conn:
        contents = stored_contents(conn, project_id, ids, but_of_batch=6)
        assert stored_contents(conn, project_id, ids, but_of_batch=5) == {}
        assert stored_contents(conn, project_id + 1, ids, but_of_batch=6) == {}
        assert stored_contents(conn, project_id, [], but_of_batch=6) == {}

    assert contents == {(name, "a"): ("heartbeat", 1, f"<{name}>") for name in ODD}


def test_offsets_are_found_by_job_and_producer(with_events: Store, project_id: int) -> None:
    producers = [(name, name) for name in ODD] + [(ODD[0], ODD[1])]
    with with_events.reading() as conn:
        assert stored_offsets(conn, project_id, producers) == {
            (name, name): len(name) for name in ODD
        }
