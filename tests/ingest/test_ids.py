"""An event without an id gets one from what it says, however it was written."""

from typing import Any

import pytest

from tests.builders.batches import accepted, batch
from tests.builders.record import wire

PROGRESS: dict[str, Any] = {"step": 3, "attributes": {"a": 1, "b": {"c": 2, "d": 3}}}


def derived(kind: str = "progress", **members: Any) -> str:
    return accepted(kind, **{**PROGRESS, **members}).event.id


@pytest.mark.parametrize(
    "other",
    [
        {"at": "2026-03-01T13:00:00+01:00"},
        {"at": "2026-03-01t12:00:00.000z"},
        {"attempt": 0, "cycle": 0, "launch": ""},
        {"attributes": {"b": {"d": 3, "c": 2}, "a": 1}},
    ],
)
def test_the_same_content_has_the_same_id(other: dict[str, Any]) -> None:
    assert derived(**other) == derived()


@pytest.mark.parametrize(
    "other",
    [
        {"at": "2026-03-01T12:00:00.000001Z"},
        {"step": 4},
        {"attempt": 1},
        {"cycle": 1},
        {"launch": "8041"},
        {"rank": 0},
        {"host": "n"},
        {"producer": "p"},
        {"seq": 1},
        {"attributes": {}},
    ],
)
def test_other_content_has_another_id(other: dict[str, Any]) -> None:
    assert derived(**other) != derived()


def test_types_with_the_same_members_have_different_ids() -> None:
    saved, restored = (
        accepted(kind, step=1).event.id for kind in ("checkpoint_saved", "checkpoint_restored")
    )

    assert saved != restored


def test_the_cycle_of_an_ending_counts_as_it_names_one_attempt() -> None:
    ending = {"outcome": "failed"}

    assert (
        accepted("attempt_ended", **ending).event.id
        != accepted("attempt_ended", **ending, cycle=0).event.id
    )


@pytest.mark.parametrize("kind", ["job", "job_ended"])
def test_attempts_count_for_nothing_in_what_is_reported_of_the_job(kind: str) -> None:
    members = {"outcome": "completed"} if kind == "job_ended" else {"team": "nlp"}
    plain = accepted(kind, **members)

    assert accepted(kind, **members, launch="8041", attempt=3, cycle=1).body == plain.body


def test_an_id_of_the_senders_own_is_kept() -> None:
    assert accepted(id="01J.A_b:c-7").event.id == "01J.A_b:c-7"


def test_the_producer_of_the_batch_is_part_of_what_an_event_says() -> None:
    (plain,) = batch(wire()).arrivals
    (of_batch,) = batch(wire(), producer="p").arrivals
    (of_event,) = batch(wire(producer="p")).arrivals

    assert of_batch.body == of_event.body != plain.body


def test_an_id_can_be_sent_as_one() -> None:
    assert accepted(id=derived()).event.id == derived()
