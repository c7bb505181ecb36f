"""A tape records what happens up to its end, and leaves open what is cut off there."""

from ett_service.demo.calendar import Tape


def test_events_beyond_the_end_are_left_out() -> None:
    tape = Tape("j", 100)
    tape.record("heartbeat", 100)
    tape.record("heartbeat", 101)
    assert [event["at"] for event in tape.events] == ["1970-01-01T00:00:00.000100Z"]


def test_a_span_that_is_cut_off_leaves_its_begin() -> None:
    tape = Tape("j", 100)
    assert tape.span("train_loop", 10, 50) == 50
    assert tape.span("shutdown", 50, 150, "teardown") == 150
    assert tape.span("shutdown", 100, 200) == 200
    kinds = [(event["type"], event["phase"]) for event in tape.events]
    assert kinds == [("span", "train_loop"), ("phase_started", "shutdown")]
    assert tape.events[1]["stage"] == "teardown"


def test_events_are_placed_by_what_is_not_zero() -> None:
    tape = Tape("j", 100, launch="12", attempt=0, cycle=2)
    tape.record("attempt_started", 1, gpus=None, hosts=0)
    assert tape.events[0] == {
        "type": "attempt_started",
        "at": "1970-01-01T00:00:00.000001Z",
        "job": "j",
        "launch": "12",
        "cycle": 2,
        "hosts": 0,
    }
