"""A batch is stored once, whole, together with the marks that its jobs need."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Table, func, select

from ett_service.ingest.accept import Verdicts, accept
from ett_service.ingest.decode import Batch
from ett_service.storage import schema
from ett_service.storage.engine.store import Store
from ett_service.storage.record import events as stored_events
from ett_service.storage.record.keys import create_project
from tests.builders.batches import batch
from tests.builders.clock import RECEIVED_AT
from tests.builders.record import wire

Send = Callable[..., Verdicts]


@pytest.fixture
def send(store: Store, project_id: int) -> Send:
    """Accept a batch of wire events as the service does."""

    def accepted(*events: dict[str, Any], **members: Any) -> Verdicts:
        return keep(store, project_id, batch(*events, **members))

    return accepted


def keep(store: Store, project_id: int, decoded: Batch) -> Verdicts:
    return store.write(
        lambda conn: accept(conn, decoded, project_id=project_id, now_us=RECEIVED_AT)
    )


def count(store: Store, table: Table) -> int:
    with store.reading() as conn:
        return conn.execute(select(func.count()).select_from(table)).scalar_one()


def verdict(verdicts: Verdicts) -> tuple[int, int, int]:
    return verdicts.accepted, verdicts.duplicate, verdicts.rejected


def test_events_are_kept_as_they_were_sent(store: Store, project_id: int, send: Send) -> None:
    sent = batch(wire(), wire("progress", step=1))
    send(wire(), wire("progress", step=1))
    with store.reading() as conn:
        stored = stored_events.events(conn, project_id, "llm-70b")

    assert sorted(stored, key=lambda each: each.id) == sorted(
        (each.event for each in sent.arrivals), key=lambda each: each.id
    )


def test_events_come_with_one_mark_a_job_under_the_same_number(store: Store, send: Send) -> None:
    verdicts = send(wire(), wire("progress", step=1), wire(job="other"))
    with store.reading() as conn:
        marks = set(conn.execute(select(schema.dirty.c.job, schema.dirty.c.batch)))
        batches = set(conn.execute(select(schema.event.c.job, schema.event.c.batch)))

    assert verdicts.marked == ("llm-70b", "other")
    assert len(marks) == 2
    assert marks == batches


def test_a_batch_that_is_sent_again_changes_nothing(store: Store, send: Send) -> None:
    events = [wire(id="a"), wire("progress", step=1), wire(job="other")]
    members = {"history": True, "producer": "p", "sent_at": "2026-03-01T12:59:00Z"}
    assert verdict(send(*events, **members)) == (3, 0, 0)
    before = [count(store, table) for table in schema.metadata.sorted_tables]
    again = send(*reversed(events), **members)

    assert verdict(again) == (0, 3, 0)
    assert again.marked == ()
    assert [count(store, table) for table in schema.metadata.sorted_tables] == before


def test_other_content_under_a_known_id_is_a_conflict_and_the_first_stays(
    store: Store, project_id: int, send: Send
) -> None:
    send(wire("progress", step=1, id="a"))
    verdicts = send(wire(id="b"), wire("progress", step=2, id="a"), wire("heartbeat", id="a"))

    assert verdict(verdicts) == (1, 0, 2)
    assert [(each.index, str(each.code), each.pointer, each.id) for each in verdicts.errors] == [
        (1, "conflict", "/events/1/id", "a"),
        (2, "conflict", "/events/2/id", "a"),
    ]
    with store.reading() as conn:
        (stored,) = (
            each for each in stored_events.events(conn, project_id, "llm-70b") if each.id == "a"
        )
    assert stored == batch(wire("progress", step=1, id="a")).arrivals[0].event


def test_repeats_inside_one_batch_are_judged_by_what_stands(send: Send) -> None:
    first, other = wire("progress", step=1, id="a"), wire("progress", step=2, id="a")

    assert verdict(send(first, first, other)) == (1, 1, 1)
    assert verdict(send(other, first, other)) == (0, 1, 2)


def test_one_id_may_name_an_event_in_each_job(send: Send) -> None:
    assert verdict(send(wire(id="a"), wire(id="a", job="other"))) == (2, 0, 0)


def test_one_job_name_is_another_job_in_each_project(
    store: Store, project_id: int, send: Send
) -> None:
    send(wire(id="a"))
    elsewhere = store.write(lambda conn: create_project(conn, "elsewhere", RECEIVED_AT))

    assert verdict(keep(store, elsewhere, batch(wire(id="a", host="h")))) == (1, 0, 0)
    with store.reading() as conn:
        assert len(stored_events.events(conn, project_id, "llm-70b")) == 1


def test_refusals_and_conflicts_come_in_the_order_of_the_events(send: Send) -> None:
    send(wire(id="a"))
    verdicts = send(
        wire(colour=1), wire(id="a", host="h"), wire(id="b"), wire("nonsense"), batch_id="b-1"
    )

    assert verdict(verdicts) == (1, 0, 3)
    assert [each.index for each in verdicts.errors] == [0, 1, 3]
    assert verdicts.batch_id == "b-1"


def test_a_batch_without_a_name_gets_one(send: Send) -> None:
    names = {send(wire()).batch_id for _ in range(3)}

    assert len(names) == 3


def test_nothing_is_kept_of_a_batch_that_is_all_refused(store: Store, send: Send) -> None:
    assert verdict(send(wire(colour=1), wire("nonsense"))) == (0, 0, 2)
    assert verdict(send()) == (0, 0, 0)
    assert count(store, schema.job) == 0


def test_a_job_that_history_ever_touched_is_known_as_such(store: Store, send: Send) -> None:
    send(wire(), wire(job="other"))
    send(wire(), history=True)
    send(wire(host="h"))
    with store.reading() as conn:
        touched = list(conn.execute(select(schema.job_history.c.job)).scalars())

    assert touched == ["llm-70b"]


def test_a_work_that_fails_after_it_keeps_neither_events_nor_marks(
    store: Store, project_id: int
) -> None:
    def fail(conn: Any) -> None:
        accept(conn, batch(wire()), project_id=project_id, now_us=RECEIVED_AT)
        raise LookupError

    with pytest.raises(LookupError):
        store.write(fail)

    assert [count(store, table) for table in (schema.job, schema.event, schema.dirty)] == [0, 0, 0]


def test_the_same_events_at_once_from_many_senders_are_accepted_once(
    store: Store, project_id: int
) -> None:
    events = [wire("progress", step=step, job=f"job-{step % 3}") for step in range(150)]
    verdicts: list[tuple[int, int, int]] = []

    def run(mine: list[dict[str, Any]]) -> None:
        for start in range(0, len(mine), 50):
            part = batch(*mine[start : start + 50])
            verdicts.append(verdict(keep(store, project_id, part)))

    senders = [threading.Thread(target=run, args=(list(order),)) for order in _orders(events)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()

    assert len(verdicts) == 12
    assert sum(accepted for accepted, _, _ in verdicts) == 150
    assert sum(duplicate for _, duplicate, _ in verdicts) == 450
    assert count(store, schema.event) == 150


def _orders(events: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [events, events[::-1], events[75:] + events[:75], sorted(events, key=str)]


def test_large_batches_in_opposite_orders_do_not_wait_in_a_circle(
    store: Store, project_id: int
) -> None:
    keep(store, project_id, batch(wire()))  # from here on the job's row holds nobody up
    events = [wire("progress", step=step, id=f"{step:05}") for step in range(3000)]
    parts = [batch(*events), batch(*events[::-1])]
    verdicts: list[tuple[int, int, int]] = []

    def run(part: Batch) -> None:
        verdicts.append(verdict(keep(store, project_id, part)))

    senders = [threading.Thread(target=run, args=(part,)) for part in parts]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()

    assert sorted(verdicts) == [(0, 3000, 0), (3000, 0, 0)]


def test_ten_thousand_events_are_accepted_and_known_again(send: Send) -> None:
    events = [wire("progress", step=step) for step in range(10_000)]

    assert verdict(send(*events)) == (10_000, 0, 0)
    assert verdict(send(*events)) == (0, 10_000, 0)


def of_cluster(cluster: str, **members: Any) -> dict[str, Any]:
    """An event of launch 8041 that says of which cluster that is."""
    return wire(launch="8041", attributes={"slurm.cluster.name": cluster}, **members)


def codes(verdicts: Verdicts) -> list[tuple[int | None, str]]:
    return [(error.index, error.code) for error in verdicts.errors]


def test_a_launch_of_another_cluster_is_refused_with_all_that_follows(send: Send) -> None:
    assert verdict(send(of_cluster("alpha"), wire(launch="8041", rank=1))) == (2, 0, 0)
    again = send(of_cluster("Alpha", rank=2), wire("job_ended", launch="8041", outcome="failed"))
    assert verdict(again) == (2, 0, 0)

    verdicts = send(
        of_cluster("beta", rank=3),
        wire("progress", step=1, launch="8041"),
        wire("job_ended", launch="8041", outcome="completed"),
        wire("progress", step=1, launch="9"),
    )

    assert codes(verdicts) == [(place, "other_cluster") for place in range(3)]
    assert verdicts.accepted == 1
    assert [each.pointer for each in verdicts.errors[:2]] == [
        "/events/0/attributes/slurm.cluster.name",
        "/events/1/launch",
    ]


def test_of_two_clusters_in_one_batch_the_first_stays(send: Send) -> None:
    follows = wire("progress", step=1, launch="8041")
    verdicts = send(
        of_cluster("alpha"), of_cluster("beta", rank=1), follows, of_cluster("alpha", rank=2)
    )
    assert codes(verdicts) == [(1, "other_cluster"), (2, "other_cluster")]


def test_jobs_of_other_names_may_have_the_same_launch_in_another_cluster(send: Send) -> None:
    assert verdict(send(of_cluster("alpha"), of_cluster("beta", job="beta-llm"))) == (2, 0, 0)
