"""Deliveries arrive whatever receivers do, and whoever dies on the way."""

import json
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from socket import socket

import pytest
from standardwebhooks import Webhook

from ett_service.app import worker
from ett_service.cli.verb import now_us
from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.notifications.notice import Status
from ett_service.notifications.routing import Directory, Schedule
from ett_service.notifications.sender import Sender, Sending
from ett_service.settings import Settings
from ett_service.storage.engine.seal import Keyring
from ett_service.storage.engine.store import Store, open_store
from ett_service.storage.receivers import deliveries, receivers
from ett_service.storage.receivers.deliveries import DeliveryState
from ett_service.storage.receivers.receivers import NewReceiver
from ett_service.worker.notify import DeliveryThread
from tests.builders.clock import NOON, Clock
from tests.builders.receivers.deliveries import (
    SIGNING,
    deliveries_in,
    delivering,
    named,
    put,
    put_one,
    run_once,
)
from tests.builders.receivers.listening import (
    Answer,
    Request,
    drip,
    flood,
    hang,
    receiving,
    reply,
    reset,
)
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.worker import running

PATIENT, HASTY = Sending(10, 20), Sending(0.1, 0.1)


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """Return what ends receivers that hang."""
    event = threading.Event()
    yield event
    event.set()


def ready_us(store: Store) -> int | None:
    with store.reading() as conn:
        return deliveries.ready_us(conn)


def arrivals(
    store: Store, project_id: int, answer: Answer, sending: Sending = PATIENT
) -> list[int]:
    """Deliver to one receiver until it takes it or is given up; return the seconds of each try."""
    clock = Clock(NOON)
    seconds: list[int] = []

    def counted(request: Request, sock: socket) -> None:
        seconds.append((clock.now_us - NOON) // SECOND_US)
        answer(request, sock)

    with receiving(counted) as web:
        put(store, project_id, ["a"], NOON)
        with delivering(store, clock, [named("a", web.url)], sending=sending) as deliverer:
            while (due_us := ready_us(store)) is not None:
                clock.now_us = max(clock.now_us, due_us)
                assert run_once(deliverer) == 1
    return seconds


@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("fault", ["500", "429", "reset", "hang", "drip", "redirect"])
def test_a_receiver_that_fails_is_asked_again_by_the_schedule_until_it_is_given_up(
    store: Store, project_id: int, fault: str, let_go: threading.Event
) -> None:
    answer, sending = {
        "500": (reply(500), PATIENT),
        "429": (reply(429, retry_after="2"), PATIENT),
        "redirect": (reply(302, location="http://169.254.169.254/"), PATIENT),
        "reset": (reset, PATIENT),
        "hang": (hang(let_go), HASTY),
        "drip": (drip(let_go, 0.01), HASTY),
    }[fault]

    seconds = arrivals(store, project_id, answer, sending)

    (dead,) = deliveries_in(store)
    tried = [(each.at_us + each.took_us - NOON) // SECOND_US for each in dead.tried]
    assert seconds
    # Who is given up in a tenth of a second may not have read the request by then.
    assert seconds == tried if sending is PATIENT else set(seconds) <= set(tried)
    waits = [later - before for before, later in pairwise(tried)]
    steps = [step // SECOND_US for step in Schedule().steps_us]
    assert tried[0] == 0
    assert len(waits) == len(steps) - 1
    for wait, step in zip(waits, steps[1:], strict=True):
        assert 0.9 * step - 1 <= wait <= 1.1 * step + 1
    assert (dead.done, len(dead.tried)) == (DeliveryState.DEAD, 10)


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_receiver_that_asks_for_time_is_asked_when_it_wants_it(
    store: Store, project_id: int
) -> None:
    assert arrivals(store, project_id, reply(503, retry_after="9999999"))[1] == 3_600


@pytest.mark.parametrize("answer", [reply(204), flood], ids=["nothing", "everything"])
def test_a_receiver_that_takes_it_is_asked_once(
    store: Store, project_id: int, answer: Answer
) -> None:
    assert arrivals(store, project_id, answer) == [0]

    assert [delivery.done for delivery in deliveries_in(store)] == [DeliveryState.SENT]


def test_a_receiver_that_is_gone_is_sent_nothing_any_more(store: Store, project_id: int) -> None:
    put(store, project_id, ["a"], NOON, fingerprint="g")

    assert arrivals(store, project_id, reply(410)) == [0]

    assert [delivery.done for delivery in deliveries_in(store)] == [
        DeliveryState.DEAD,
        DeliveryState.DEAD,
    ]


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_dead_receiver_with_many_pending_deliveries_is_tried_seldom(
    store: Store, project_id: int
) -> None:
    clock = Clock(NOON)
    for number in range(30):
        put(store, project_id, ["a"], NOON, fingerprint=f"f{number}")
    with (
        receiving(reply(500)) as web,
        delivering(store, clock, [named("a", web.url)]) as deliverer,
    ):
        while (due_us := ready_us(store)) and due_us < NOON + HOUR_US:
            clock.now_us = max(clock.now_us, due_us)
            run_once(deliverer)

    assert 8 <= len(web.requests) <= 14  # and not five each, and more


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_an_answer_without_end_takes_no_memory(store: Store, project_id: int) -> None:
    clock = Clock(NOON)
    with receiving(flood) as web, delivering(store, clock, [named("a", web.url)]) as deliverer:
        put(store, project_id, ["a"], NOON)
        tracemalloc.start()
        try:
            run_once(deliverer)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < 1 << 20


def test_receivers_that_hang_keep_no_other_waiting(
    store: Store, project_id: int, let_go: threading.Event
) -> None:
    with ExitStack() as stack:
        bad = [stack.enter_context(receiving(hang(let_go))) for _ in range(3)]
        good = [stack.enter_context(receiving()) for _ in range(3)]
        receivers = [named(f"r{number}", web.url) for number, web in enumerate([*bad, *good])]
        deliverer = stack.enter_context(
            delivering(store, Clock(NOON), receivers, sending=Sending(20, 20))
        )
        for number in range(4):
            names = [receiver.name for receiver in receivers]
            put(store, project_id, names, NOON, fingerprint=f"f{number}")
        deliverer.start()
        assert wait_for(lambda: all(len(web.requests) == 4 for web in good))
        assert wait_for(lambda: [len(web.requests) for web in bad] == [1, 1, 1])
        let_go.set()


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_receiver_that_hangs_does_not_keep_the_worker_from_ending(
    store: Store, project_id: int, let_go: threading.Event
) -> None:
    with receiving(hang(let_go)) as web:
        put(store, project_id, ["a"], NOON)
        deliverer = delivering(
            store,
            Clock(NOON),
            [named("a", web.url)],
            sending=Sending(60, 60),
            patience_seconds=0.05,
        )
        with deliverer as delivers:
            delivers.run_once()
            assert wait_for(lambda: len(web.requests) == 1)
        assert [delivery.done for delivery in deliveries_in(store)] == [DeliveryState.WAITING]
        let_go.set()


def test_what_is_put_while_it_runs_is_sent(store: Store, project_id: int) -> None:
    with receiving() as web, delivering(store, Clock(NOON), [named("a", web.url)]) as deliverer:
        deliverer.start()
        put(store, project_id, ["a"], NOON)
        assert wait_for(
            lambda: [delivery.done for delivery in deliveries_in(store)] == [DeliveryState.SENT]
        )


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_worker_that_was_paused_sends_nothing_that_another_may_be_sending(
    store: Store, project_id: int
) -> None:
    instants = iter([NOON, NOON + HOUR_US, NOON + HOUR_US, NOON + HOUR_US])
    put(store, project_id, ["a"], NOON)
    with receiving() as web:
        leaping = DeliveryThread(
            store,
            Directory([named("a", web.url)]),
            Sender(),
            clock=lambda _: next(instants),
        )
        run_once(leaping)
        assert web.requests == []
        run_once(leaping)
        leaping.join()

    assert len(web.requests) == 1


def test_a_receiver_that_there_is_no_more_is_given_up(store: Store, project_id: int) -> None:
    put(store, project_id, ["gone"], NOON)
    with delivering(store, Clock(NOON), []) as deliverer:
        run_once(deliverer)

    (delivery,) = deliveries_in(store)
    assert delivery.done is DeliveryState.DEAD
    assert delivery.tried[-1].said == "The receiver no longer exists."


def test_alertmanager_is_notified_again_and_again_until_it_knows_of_the_end(
    store: Store, project_id: int
) -> None:
    clock = Clock(NOON)
    with receiving() as web:
        receiver = named("am", web.url, kind="alertmanager")
        with delivering(store, clock, [receiver]) as deliverer:
            put(store, project_id, ["am"], NOON)
            for _ in range(5):
                run_once(deliverer)
                clock.now_us += 60 * SECOND_US
            put(store, project_id, ["am"], clock.now_us, version=2, status=Status.RESOLVED)
            for _ in range(5):
                run_once(deliverer)
                clock.now_us += 60 * SECOND_US

    ends = [json.loads(request.body)[0]["endsAt"] for request in web.requests]
    assert len(ends) == 6
    assert ends == sorted(ends)
    assert [delivery.done for delivery in deliveries_in(store)] == [
        DeliveryState.SENT,
        DeliveryState.SENT,
    ]


def test_what_nobody_can_read_is_given_up_like_what_nobody_takes(
    store: Store, project_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    put_one(store, project_id, "a", "no", 1)
    with delivering(store, Clock(NOON + 2), [named("a", "http://127.0.0.1:1/")]) as deliverer:
        run_once(deliverer)

    (delivery,) = deliveries_in(store)
    assert delivery.tries == 1
    assert "It failed with" in delivery.tried[0].said
    assert "A delivery could not be made." in caplog.messages


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_the_worker_of_the_settings_notifies_the_receivers_of_the_settings(
    store: Store, project_id: int
) -> None:
    with receiving() as web:
        row = {"name": "a", "url": web.url, "secret": SIGNING}
        settings = Settings.model_validate(
            {"database_url": store.url, "receivers": [row], "detection": {"enabled": False}}
        )
        with running(worker(settings, store, now_us)):
            put(store, project_id, ["a"], NOON)
            assert wait_for(lambda: len(web.requests) == 1)

    Webhook(SIGNING).verify(web.requests[0].body, web.requests[0].headers)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_several_workers_share_the_deliveries_and_send_none_twice(
    store: Store, project_id: int
) -> None:
    others = [open_store(store.url) for _ in range(2)]
    with ExitStack() as stack:
        webs = [stack.enter_context(receiving()) for _ in range(3)]
        receivers = [named(f"r{number}", web.url) for number, web in enumerate(webs)]
        for number in range(10):
            put(store, project_id, ["r0", "r1", "r2"], NOON, fingerprint=f"f{number}")
        for each in (store, *others):
            stack.enter_context(delivering(each, Clock(NOON), receivers)).start()
        assert wait_for(
            lambda: all(delivery.done is DeliveryState.SENT for delivery in deliveries_in(store))
        )
    for each in others:
        each.close()

    assert [len(web.requests) for web in webs] == [10, 10, 10]


def test_old_deliveries_go_and_new_ones_stay(store: Store, project_id: int) -> None:
    clock = Clock(NOON)
    put(store, project_id, ["nobody"], NOON, fingerprint="old")
    with delivering(store, clock, []) as deliverer:
        run_once(deliverer)
    clock.now_us += 30 * DAY_US
    put(store, project_id, ["nobody"], clock.now_us, fingerprint="new")
    sender, directory = Sender(PATIENT), Directory()
    pruning = partial(DeliveryThread, store, directory, sender, clock=lambda _: clock.now_us)
    pruning(keep_us=31 * DAY_US).step()
    assert {each.fingerprint for each in deliveries_in(store)} == {"old", "new"}
    pruning(keep_us=29 * DAY_US).step()
    assert {each.fingerprint for each in deliveries_in(store)} == {"new"}


def test_secrets_are_sealed_with_the_newest_key_before_anything_is_sent(
    store: Store, project_id: int
) -> None:
    old, new = "o" * 32, "n" * 32
    receiver = NewReceiver("oncall", "https://hooks.example/x", "generic", SIGNING)
    add = partial(receivers.add, project_id=project_id, new=receiver, made_by="", now_us=NOON)
    store.write(partial(add, keyring=Keyring(old)))
    thread = DeliveryThread(store, Directory([], Keyring(f"{new},{old}")), Sender(PATIENT))
    thread.start()
    thread.stop_soon()
    thread.join()
    with store.reading() as conn:
        assert Directory([], Keyring(new)).find(conn, project_id, "oncall", NOON) is not None
