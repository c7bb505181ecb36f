"""Producers' clocks: the least of received minus sent, kept where the fold heeds it."""

import itertools
from typing import Any

import pytest

from ett_service.core.intervals import rfc3339
from ett_service.ingest.accept import accept
from ett_service.storage.engine.store import Store
from ett_service.storage.record import events as stored_events
from tests.builders.batches import batch
from tests.builders.clock import RECEIVED_AT, SECOND
from tests.builders.record import wire


class Sender:
    """Sends batches of which each took *offset* microseconds by the two clocks."""

    def __init__(self, store: Store, project_id: int) -> None:
        self._store = store
        self._project_id = project_id

    def send(self, offset: int, *events: dict[str, Any], producer: str = "p") -> bool:
        """Send *events*, by default one that is known; returns whether the job was marked."""
        sent_at = rfc3339(RECEIVED_AT - offset)
        decoded = batch(*(events or (wire(),)), producer=producer, sent_at=sent_at)
        verdicts = self._store.write(
            lambda conn: accept(conn, decoded, project_id=self._project_id, now_us=RECEIVED_AT)
        )
        return bool(verdicts.marked)

    def offsets(self) -> dict[str, int]:
        with self._store.reading() as conn:
            return stored_events.offsets(conn, self._project_id, "llm-70b")


@pytest.fixture
def sender(store: Store, project_id: int) -> Sender:
    return Sender(store, project_id)


def test_the_least_offset_of_a_producer_is_kept(sender: Sender) -> None:
    for offset in (9 * SECOND, 5 * SECOND, 7 * SECOND):
        sender.send(offset)

    assert sender.offsets() == {"p": 5 * SECOND}


@pytest.mark.parametrize(
    ("first", "second", "is_marked"),
    [
        (5 * SECOND, 4 * SECOND, True),
        (5 * SECOND, SECOND, True),
        (5 * SECOND, 6 * SECOND, False),
        (5 * SECOND, 5 * SECOND, False),
        (SECOND, 0, False),
        (SECOND, -2 * SECOND, False),
        (SECOND, -2 * SECOND - 1, True),
        (-3 * SECOND, -4 * SECOND, True),
    ],
)
def test_a_known_event_marks_its_job_only_if_its_clock_moves_the_ledger(
    sender: Sender, first: int, second: int, is_marked: bool
) -> None:
    assert sender.send(first)
    assert sender.send(second) is is_marked


def test_what_the_fold_heeds_is_the_same_in_every_order(store: Store, project_id: int) -> None:
    offsets = set()
    drawn = (6 * SECOND, SECOND // 2, -SECOND, SECOND)
    for number, order in enumerate(itertools.permutations(drawn)):
        sender = Sender(store, project_id)
        for offset in order:
            sender.send(offset, producer=f"p{number}")
        offset = sender.offsets()[f"p{number}"]
        offsets.add(offset if abs(offset) > 2 * SECOND else 0)

    assert offsets == {0}


def test_each_producer_of_a_batch_has_its_own_offset(sender: Sender) -> None:
    sender.send(3 * SECOND, wire(producer="a"), wire(producer="b"))
    sender.send(4 * SECOND, wire(producer="b"), wire(producer="c"))

    assert sender.offsets() == {"a": 3 * SECOND, "b": 3 * SECOND, "c": 4 * SECOND}


def test_a_batch_that_does_not_say_when_it_was_sent_teaches_nothing(
    store: Store, project_id: int, sender: Sender
) -> None:
    decoded = batch(wire(), producer="p")
    store.write(lambda conn: accept(conn, decoded, project_id=project_id, now_us=RECEIVED_AT))

    assert sender.offsets() == {}


def test_events_without_a_producer_have_no_clock_to_correct(
    store: Store, project_id: int, sender: Sender
) -> None:
    decoded = batch(wire(), sent_at="2026-03-01T12:00:00Z")
    store.write(lambda conn: accept(conn, decoded, project_id=project_id, now_us=RECEIVED_AT))

    assert sender.offsets() == {}
