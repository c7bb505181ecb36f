"""The auditor: definitions side by side, what each ignores, and what ETT% rests on."""

from typing import Any

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Event,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.planning.audit import RecordedEvent, audit, ignored, ratio
from ett_service.core.words import Outcome, Phase

S = 1_000_000


def at(kind: type[Event], second: int, attempt: int = 0, **members: Any) -> Event:
    name = f"{kind.__name__}-{second}-{attempt}-{sorted(map(str, members.items()))}"
    return kind(id=name, at=second * S, attempt=attempt, **members)


def recorded(*events: Event) -> list[RecordedEvent]:
    return [RecordedEvent(event, number) for number, event in enumerate(events)]


JOB = recorded(
    at(AttemptStarted, 0),
    at(PhaseStarted, 0, phase=Phase.LAUNCHER_INIT),
    at(PhaseStarted, 100, phase=Phase.TRAIN_LOOP),
    at(Progress, 100, step=0),
    at(Progress, 200, step=10),
    at(SpanOver, 230, start=200 * S, phase=Phase.EVALUATION),
    at(Progress, 300, step=17),
    at(CheckpointSaved, 300, step=17, duration_seconds=10),
    at(SpanOver, 90, start=50 * S, phase=Phase.LAUNCHER_INIT, stage="device_init"),
    at(AttemptEnded, 400, outcome=Outcome.COMPLETED),
)


def test_each_definition_stands_beside_the_others() -> None:
    of = audit(JOB, 5000 * S)

    assert {name: round(ratio(pair), 3) for name, pair in of.pairs.items()} == {
        "ett_ratio": round(270 / 400, 3),
        "google_goodput": round(270 / 400, 3),
        "cre_goodput": 1.0,
        "ettr": round(300 / 400, 3),
        "megascale_rate": round(270 / 300, 3),
        "one_logger_productive": round(160 / 400, 3),
    }


def test_a_definition_ignores_records_without_which_it_says_the_same() -> None:
    of = audit(JOB, 5000 * S)
    ignoring = {each.name: ignored(of.pairs, each) for each in of.kinds}

    assert ignoring["stages"] == list(of.pairs)
    assert ignoring["evaluation"] == ["cre_goodput", "ettr"]
    assert "one_logger_productive" not in ignoring["checkpoint_saved"]
    assert "ett_ratio" in ignoring["checkpoint_saved"]
    assert ignoring["train_loop"] == []


def test_a_headline_rests_on_the_records_that_change_it_the_greatest_change_first() -> None:
    of = audit(JOB, 5000 * S)

    assert [each.record for each in of.records][:2] == [2, 9]
    assert of.pairs["ett_ratio"] not in [each.pairs["ett_ratio"] for each in of.records]
    assert (of.tried, of.of) == (3, 10)


def test_all_events_of_a_record_are_left_out_together() -> None:
    events = [RecordedEvent(each.event, 7) for each in JOB]

    (only,) = audit(events, 5000 * S).records

    assert (only.record, only.pairs["ett_ratio"]) == (7, (0, 0))


def test_a_long_log_is_tried_in_part_and_says_so() -> None:
    steps = [at(Progress, 100 + n, step=n) for n in range(200, 3000)]
    loop = [at(PhaseStarted, 100, phase=Phase.TRAIN_LOOP)]
    of = audit(recorded(*loop, *steps), 10_000 * S)

    assert (of.tried <= 142, of.of) == (True, 2801)
