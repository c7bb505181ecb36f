"""What is known about one job is read back, and nothing of another."""

from typing import Any

import pytest
from sqlalchemy import Table, insert

from ett_service.core.events import Event, Heartbeat, PhaseEnded, SpanOver
from ett_service.core.words import Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.record.events import (
    encode_body,
    events,
    job_exists,
    offsets,
    spans_of_phase,
    store_epoch,
)
from ett_service.storage.schema import event as event_table
from ett_service.storage.schema import job, producer
from tests.builders.clock import NOON
from tests.builders.record import event, progress


def add(store: Store, table: Table, row: dict[str, Any]) -> None:
    store.write(lambda conn: conn.execute(insert(table), row))


def keep(store: Store, project_id: int, name: str, batch: int, event: Event) -> None:
    row: dict[str, Any] = {"project_id": project_id, "job": name}
    fact = {
        "id": event.id,
        "type": event.type,
        "at_us": event.at,
        "received_us": NOON,
        "batch": batch,
        "body": encode_body(event),
    }
    add(store, event_table, row | fact)


@pytest.fixture
def with_jobs(store: Store, project_id: int) -> Store:
    for name in ("llm", "other"):
        row = {"project_id": project_id, "job": name, "received_us": NOON}
        add(store, job, row)
    return store


def test_the_events_of_a_job_are_read_whole_or_by_batches(
    with_jobs: Store, project_id: int
) -> None:
    first, second, third = event(Heartbeat), progress(1), progress(2)
    for batch, each in ((1, first), (2**63 - 1, second), (3, third)):
        keep(with_jobs, project_id, "llm", batch, each)
    keep(with_jobs, project_id, "other", 1, progress(9))

    def ids(*batches: int) -> set[str]:
        with with_jobs.reading() as conn:
            return {each.id for each in events(conn, project_id, "llm", batches or None)}

    assert ids() == {first.id, second.id, third.id}
    assert ids(1, 2**63 - 1) == {first.id, second.id}
    assert ids(*range(2000)) == {first.id, third.id}
    with with_jobs.reading() as conn:
        assert events(conn, project_id, "llm", []) == []


def test_the_spans_of_a_phase_are_read_alone(with_jobs: Store, project_id: int) -> None:
    def span(phase: Phase, **members: Any) -> SpanOver:
        return event(SpanOver, start=NOON, phase=phase, **members)

    compiled = span(Phase.PT2_COMPILE, stage="dynamo")
    misleading = span(Phase.SHUTDOWN, attributes={"phase": "pt2_compile"})
    others = [misleading, span(Phase.TRAIN_LOOP), event(PhaseEnded, phase=Phase.PT2_COMPILE)]
    for each in (compiled, *others):
        keep(with_jobs, project_id, "llm", 1, each)
    keep(with_jobs, project_id, "other", 1, span(Phase.PT2_COMPILE))

    with with_jobs.reading() as conn:
        assert spans_of_phase(conn, project_id, "llm", Phase.PT2_COMPILE) == [compiled]


def test_offsets_are_those_of_the_jobs_own_producers(with_jobs: Store, project_id: int) -> None:
    for name, offset in (("llm", -5), ("other", 7)):
        row = {"project_id": project_id, "job": name, "producer": "p", "offset_us": offset}
        add(with_jobs, producer, row)

    with with_jobs.reading() as conn:
        assert offsets(conn, project_id, "llm") == {"p": -5}
        assert offsets(conn, project_id + 1, "llm") == {}


def test_a_job_exists_in_its_own_project_only(with_jobs: Store, project_id: int) -> None:
    with with_jobs.reading() as conn:
        assert job_exists(conn, project_id, "llm")
        assert not job_exists(conn, project_id, "missing")
        assert not job_exists(conn, project_id + 1, "llm")


def test_a_store_keeps_its_epoch(store: Store) -> None:
    with store.reading() as conn:
        first = store_epoch(conn)
    with store.reading() as conn:
        assert store_epoch(conn) == first
    assert len(first) == 32
