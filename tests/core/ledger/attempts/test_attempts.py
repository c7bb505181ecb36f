"""Which attempt an event belongs to, and the order of the attempts."""

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    Heartbeat,
    JobFacts,
    PhaseStarted,
)
from ett_service.core.ledger.attempts.attempts import Attempts, Clocks
from ett_service.core.words import Outcome, Phase


def _attempts(*events: Event) -> Attempts:
    attempts = Attempts()
    assert attempts.add(events, Clocks())
    return attempts


def _started(at: int, launch: str = "", attempt: int = 0, cycle: int = 0) -> Event:
    name = f"s{at}-{launch}-{attempt}-{cycle}"
    return AttemptStarted(id=name, at=at, launch=launch, attempt=attempt, cycle=cycle)


def _ended(at: int, attempt: int = 0) -> Event:
    return AttemptEnded(id=f"e{at}", at=at, attempt=attempt, outcome=Outcome.FAILED)


def test_launches_come_by_their_first_instant_whatever_their_ids() -> None:
    attempts = _attempts(_started(10, "900"), _started(20, "7"), _started(15, "900", attempt=1))

    assert [attempt.key for attempt in attempts.in_order()] == [
        ("900", 0, 0),
        ("900", 1, 0),
        ("7", 0, 0),
    ]


def test_launches_of_one_instant_come_by_number_and_then_by_text() -> None:
    attempts = _attempts(*(_started(10, launch) for launch in ("a", "10", "9")))

    assert [attempt.key[0] for attempt in attempts.in_order()] == ["9", "10", "a"]


def test_a_launch_that_only_queued_comes_last() -> None:
    queued = PhaseStarted(id="q", at=1, launch="a", phase=Phase.QUEUED)
    attempts = _attempts(queued, _started(10, "b"))

    assert [attempt.key[0] for attempt in attempts.in_order()] == ["b", "a"]


def test_an_event_without_a_launch_belongs_to_the_latest_that_had_begun() -> None:
    beats = [Heartbeat(id=f"h{at}", at=at) for at in (5, 15, 25)]
    attempts = _attempts(_started(10, "a"), _started(20, "b"), *beats)

    assert {key[0]: attempt.heard for key, attempt in attempts.events_of.items()} == {
        "a": 15,
        "b": 25,
    }
    assert attempts.events_of["a", 0, 0].first == 5


def test_an_end_without_a_cycle_ends_the_highest_that_had_begun() -> None:
    attempts = _attempts(_started(10), _started(20, cycle=1), _started(40, cycle=2), _ended(30))

    assert [len(attempt.ends) for attempt in attempts.in_order()] == [0, 1, 0]


def test_an_end_before_every_cycle_ends_the_lowest() -> None:
    attempts = _attempts(_started(20, cycle=1), _started(40, cycle=2), _ended(5))

    assert [attempt.first for attempt in attempts.in_order()] == [5, 40]


def test_facts_about_the_job_move_no_attempt_and_no_as_of() -> None:
    attempts = _attempts(_started(10), JobFacts(id="j", at=99, name="n"))

    assert (attempts.last_event_at, attempts.last_sign_at) == (10, 99)


def test_a_launch_that_would_take_earlier_events_cannot_follow() -> None:
    attempts = _attempts(_started(10, "a"), Heartbeat(id="h", at=30))

    assert not attempts.add([_started(20, "b")], Clocks())


def test_a_cycle_that_would_take_an_earlier_end_cannot_follow() -> None:
    attempts = _attempts(_started(10), _ended(30))

    assert not attempts.add([_started(20, cycle=1)], Clocks())
