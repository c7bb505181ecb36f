"""A worker looks after its share of the slots, and after none once it cannot renew them."""

import time

import pytest

from ett_service.core.events import AttemptStarted
from ett_service.storage.engine.lease import SLOTS
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.worker import ledgers
from ett_service.worker.ledgers import Worker
from ett_service.worker.slots import SlotsThread
from tests.builders.clock import Clock
from tests.builders.ledgers import deliver, marked
from tests.builders.record import event
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.worker import running

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)

LONG_S = 600.0


def test_what_is_gained_is_reported_once(store: Store) -> None:
    gains: list[int] = []
    thread = SlotsThread(store, lambda: gains.append(len(thread.slots)), LONG_S)
    assert thread.slots == frozenset()

    assert thread.step() == LONG_S / 3
    assert thread.step() == LONG_S / 3

    assert gains == [SLOTS]


def test_a_second_tries_soon_again_until_the_first_has_let_go(store: Store) -> None:
    first, second = (SlotsThread(store, lambda: None, LONG_S) for _ in range(2))
    first.step()

    assert second.step() == LONG_S / 12
    first.step()
    assert second.step() == LONG_S / 3

    assert len(first.slots) == len(second.slots) == SLOTS // 2
    assert not first.slots & second.slots


def test_a_worker_that_cannot_renew_has_none_before_others_take_them(store: Store) -> None:
    first, second = (SlotsThread(store, lambda: None, 0.3) for _ in range(2))
    first.step()
    second.step()
    while not second.slots:
        assert not first.slots & second.slots
        time.sleep(0.01)
        second.step()
    assert first.slots == frozenset()


def test_one_that_ends_leaves_all_to_the_others(store: Store) -> None:
    first, second = (SlotsThread(store, lambda: None, LONG_S) for _ in range(2))
    first.step()
    first.finish()
    second.step()
    assert (first.slots, len(second.slots)) == (frozenset(), SLOTS)


def test_jobs_of_a_worker_that_hangs_are_taken_over(
    store: Store, project_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "LEASE_SECONDS", 0.3)
    hung = SlotsThread(store, lambda: None, 0.3)
    hung.step()
    deliver(store, JobKey(project_id, "llm-70b"), [event(AttemptStarted)])
    with running(Worker(store, Clock(), poll_seconds=0.01)):
        assert wait_for(lambda: marked(store) == [])
