"""When a delivery is tried again, and when a receiver is left alone."""

from dataclasses import replace

import pytest

from ett_service.core.intervals import HOUR_US, SECOND_US
from ett_service.notifications.routing import Breaker, Schedule
from ett_service.notifications.sender import Outcome
from ett_service.storage.receivers.deliveries import Claim, DeliveryState, TryResult
from tests.builders.clock import NOON

CLAIMED = Claim("msg_1", 1, 0, "a", "{}", 0, 0, NOON, ())
FAILED = Outcome(500, "")
MINUTE_US = 60 * SECOND_US


def failed(tries: int = 1, failures: int = 1, outcome: Outcome = FAILED, **more: bool) -> TryResult:
    """Say what follows from the try that makes so many in vain."""
    claimed = replace(CLAIMED, tries=tries - 1, failures=failures - 1)
    return Schedule().settle(claimed, outcome, NOON, **more)


def test_each_wait_is_that_of_the_schedule_give_or_take_a_tenth() -> None:
    steps = Schedule().steps_us
    assert [step / HOUR_US for step in steps[4:]] == [2, 5, 10, 14, 20, 24]
    for tries in range(1, 10):
        wait_us = failed(tries).due_us - NOON
        assert 0.9 * steps[tries] <= wait_us <= 1.1 * steps[tries]
    waits = {
        Schedule().settle(replace(CLAIMED, id=str(number)), FAILED, NOON).due_us
        for number in range(50)
    }
    assert len(waits) > 40  # not all at once


def test_after_the_last_try_a_delivery_is_dead() -> None:
    assert failed(9).done is DeliveryState.WAITING
    assert failed(10).done is DeliveryState.DEAD


@pytest.mark.parametrize(
    ("status", "is_success"), [(200, True), (204, True), (299, True), (301, False), (304, False),
                               (400, False), (404, False), (500, False), (None, False)]
)  # fmt: skip
def test_only_what_begins_with_a_two_is_success(status: int | None, is_success: bool) -> None:
    settled = Schedule().settle(CLAIMED, Outcome(status, ""), NOON)

    assert (settled.done is DeliveryState.SENT) is is_success
    assert settled.failures == (0 if is_success else 1)


def test_a_receiver_that_is_gone_is_disabled_at_once() -> None:
    settled = failed(outcome=Outcome(410, ""))

    assert settled.done is DeliveryState.DEAD
    assert settled.disabled_why


def test_who_asks_for_time_gets_it_up_to_an_hour() -> None:
    settled = failed(outcome=Outcome(429, "", retry_after_us=20 * MINUTE_US))
    assert settled.due_us == settled.open_until_us == NOON + 20 * MINUTE_US

    assert failed(outcome=Outcome(503, "", retry_after_us=9 * HOUR_US)).due_us == NOON + HOUR_US
    soon = failed(tries=2, outcome=Outcome(429, "", retry_after_us=SECOND_US))
    assert soon.due_us - NOON > 4 * MINUTE_US  # the schedule waits longer than it asks for


def test_a_receiver_that_fails_again_and_again_is_left_alone_for_longer_and_longer() -> None:
    pauses = [Breaker().pause_us(failures) / SECOND_US for failures in (0, 4, 5, 6, 10, 11, 99)]

    assert pauses == [0, 0, 30, 60, 960, 1_800, 1_800]
    assert failed(failures=4).open_until_us is None
    assert failed(failures=5).open_until_us == NOON + 30 * SECOND_US


def test_the_pause_of_a_receiver_never_delays_its_only_delivery() -> None:
    for tries in range(1, 10):
        settled = failed(tries, failures=tries)
        assert (settled.open_until_us or 0) <= settled.due_us


def test_what_is_repeated_is_sent_again_and_again_and_never_dead() -> None:
    schedule = Schedule(resend_us=MINUTE_US)
    settled = schedule.settle(CLAIMED, Outcome(200, ""), NOON, is_repeated=True)
    assert (settled.done, settled.due_us, settled.tries) == (
        DeliveryState.REPEATING,
        NOON + MINUTE_US,
        0,
    )

    for tries in (1, 5, 10, 50):
        settled = failed(tries, failures=tries, is_repeated=True)
        assert settled.done is DeliveryState.WAITING
        assert max(settled.due_us, settled.open_until_us or 0) <= NOON + MINUTE_US
