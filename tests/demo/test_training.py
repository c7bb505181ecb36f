"""The phases before the loop follow on each other, and the compile hides the first batch."""

from ett_service.core.intervals import rfc3339
from ett_service.demo.calendar import Almanac, Draws, Tape, WireEvent
from ett_service.demo.fleet import MODELS, Planted
from ett_service.demo.training import Job, Start, start_up, submit
from tests.demo.conftest import DAYS, END_US, instant

ALMANAC = Almanac(DAYS, END_US)
BEGIN = ALMANAC.start_us


def job() -> Job:
    """Return a pretraining."""
    model = next(model for model in MODELS if model.name == "llm-70b")
    draws = Draws(7, "a job")
    return submit(draws, model, "pretrain", 1024, 100.0, at=BEGIN, name="j", goes_first=True)


def started(*, step: int = 0, in_place: bool = False) -> tuple[list[WireEvent], int]:
    """Return the events of an attempt before its loop, and the begin of the loop."""
    tape = Tape("j", END_US)
    version = ALMANAC.code_version(BEGIN)
    start = Start(job(), step, version, is_warm=False, in_place=in_place)
    begins = start_up(tape, Draws(7, "a start"), Planted(ALMANAC), start, BEGIN)
    return tape.events, begins


def phases(events: list[WireEvent]) -> list[str]:
    """Return the phases that were sent as spans, in the order of their begins."""
    whole = [event for event in events if event["type"] == "span" and "stage" not in event]
    return [event["phase"] for event in sorted(whole, key=lambda event: str(event["start"]))]


def test_a_first_attempt_goes_through_every_station() -> None:
    events, begins = started()
    assert phases(events) == ["scheduling", "hardware_setup", "launcher_init", "pt2_compile"]
    assert {event.get("stage") for event in events} >= {"dynamo", "inductor", "device_init"}
    assert "checkpoint_restore" not in {event.get("stage") for event in events}
    assert begins == max(instant(event["at"]) for event in events)


def test_a_restart_in_place_needs_no_allocation() -> None:
    events, _ = started(step=500, in_place=True)
    assert phases(events) == ["launcher_init", "pt2_compile"]
    (restored,) = [event for event in events if event["type"] == "checkpoint_restored"]
    assert restored["step"] == 500
    assert "checkpoint_restore" in {event.get("stage") for event in events}


def test_the_launcher_ends_when_the_first_batch_is_there_and_all_is_compiled() -> None:
    events, begins = started()
    (launcher,) = [event for event in events if event.get("phase") == "launcher_init"
                   and "stage" not in event]  # fmt: skip
    assert launcher["at"] == rfc3339(begins)
    (batch,) = [event for event in events if event.get("stage") == "get_first_batch_data"]
    (compiled,) = [event for event in events if event.get("phase") == "pt2_compile"
                   and "stage" not in event]  # fmt: skip
    assert batch["start"] == compiled["start"]
