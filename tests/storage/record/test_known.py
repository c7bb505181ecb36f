"""What is there already of a batch is found whatever its keys look like."""

import pytest
from sqlalchemy import Table, insert

from ett_service.storage.engine.store import Store
from ett_service.storage.record.events import stored_contents, stored_offsets
from ett_service.storage.schema import event, job, producer
from tests.builders.clock import NOON

ODD = ['quote"', "back\\slash", "é😀", "comma,", "{}", "'"]


def add(store: Store, table: Table, row: dict[str, object]) -> None:
    store.write(lambda conn: conn.execute(insert(table), row))


@pytest.fixture
def with_events(store: Store, project_id: int) -> Store:
    of_project: dict[str, object] = {"project_id": project_id}
    for name in ODD:
        of_job = of_project | {"job": name}
        fact = {"id": "a", "type": "heartbeat", "at_us": 1, "batch": 5, "body": f"<{name}>"}
        add(store, job, of_job | {"received_us": NOON})
        add(store, event, of_job | fact | {"received_us": NOON})
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

    assert contents == {(name, "a"): ("heartbeat", f"<{name}>") for name in ODD}


def test_offsets_are_found_by_job_and_producer(with_events: Store, project_id: int) -> None:
    producers = [(name, name) for name in ODD] + [(ODD[0], ODD[1])]
    with with_events.reading() as conn:
        assert stored_offsets(conn, project_id, producers) == {
            (name, name): len(name) for name in ODD
        }
