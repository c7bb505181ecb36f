from fractions import Fraction
from typing import Any

import pytest

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Event,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.planning.definitions import (
    RecordedEvent,
    audit,
    cre_goodput,
    definitions,
    ettr,
    google_goodput,
    ignored,
    megascale_rate,
    ratio,
)
from ett_service.core.words import Category, Outcome, Phase
from tests.core.timeline import SECOND, ended, progress, saved, span

ONE_INTERRUPTION: list[Event] = [
    span(Phase.LAUNCHER_INIT, 0, 100),
    span(Phase.TRAIN_LOOP, 100, 5100),
    span(Phase.CHECKPOINT_BLOCKING, 4155, 4200),
    saved(4200, step=40),
    ended(5100, Outcome.FAILED),
    span(Phase.SCHEDULING, 5200, 5250, attempt=1),
    span(Phase.LAUNCHER_INIT, 5250, 5320, attempt=1),
    span(Phase.TRAIN_LOOP, 5320, 14500, attempt=1),
    ended(14500, Outcome.COMPLETED, attempt=1),
]
"""From the first step 14,400 s; 900 lost, 150 to reschedule, 70 to resume, 45 to save."""

QUEUED_STALLED_AND_HUNG: list[Event] = [
    span(Phase.QUEUED, -200, 0),
    span(Phase.SCHEDULING, 0, 10),
    span(Phase.HARDWARE_SETUP, 10, 40),
    span(Phase.LAUNCHER_INIT, 40, 100),
    span(Phase.TRAIN_LOOP, 100, 1000),
    *[progress(at_s, at_s // 100) for at_s in range(100, 700, 100)],
    span(Phase.PT2_COMPILE, 250, 260),
    span(Phase.STALLED, 320, 340),
    span(Phase.EVALUATION, 420, 450),
    span(Phase.CHECKPOINT_BLOCKING, 500, 505),
    saved(505, step=5),
    ended(900, Outcome.FAILED),
]
"""Silent from 600 + 2 * 100 s on, for 100 s; the loop's end comes after the attempt's."""

S = 1_000_000


def folded(events: list[Event]) -> JobLedger:
    return fold(events, {}, 20_000 * SECOND)


def seconds(pair: tuple[int, int]) -> tuple[float, float]:
    return pair[0] / SECOND, pair[1] / SECOND


def test_the_published_fixture_of_cre_gives_its_figure() -> None:
    pair = cre_goodput(folded(ONE_INTERRUPTION))

    assert seconds(pair) == (14_400 - 900 - 70 - 150 - 45, 14_400 - 150)
    assert round(pair[0] / pair[1], 6) == 0.928772


def test_a_step_of_google_goes_on_until_the_next_one() -> None:
    effective = 700 - 10 - 20 - 30 - 5

    pair = google_goodput(folded(QUEUED_STALLED_AND_HUNG))

    assert seconds(pair) == (effective + 10 + 20, 900 - 10 - 30)


def test_the_wait_in_the_queue_is_part_of_ettr() -> None:
    pair = ettr(folded(QUEUED_STALLED_AND_HUNG))

    assert seconds(pair) == (700 - 5, 200 + 900)


def test_megascale_counts_from_the_first_step_to_the_last() -> None:
    assert seconds(megascale_rate(folded(QUEUED_STALLED_AND_HUNG))) == (635, 800)


def test_a_hang_is_lost_work_to_cre() -> None:
    unsaved = 800 - 505

    pair = cre_goodput(folded(QUEUED_STALLED_AND_HUNG))

    assert seconds(pair) == (800 - unsaved - 100 - 5, 800)


def test_cre_does_not_fall_below_zero() -> None:
    ledger = folded(
        [
            span(Phase.TRAIN_LOOP, 0, 100),
            ended(100, Outcome.FAILED),
            span(Phase.LAUNCHER_INIT, 100, 400, attempt=1),
            span(Phase.TRAIN_LOOP, 400, 410, attempt=1),
            ended(410, Outcome.FAILED, attempt=1),
        ]
    )

    assert cre_goodput(ledger) == (0, 410 * SECOND)


def test_each_definition_differs_from_the_ett_ratio() -> None:
    ledger = folded(QUEUED_STALLED_AND_HUNG)
    effective = sum(s.us for s in ledger.shares if s.category is Category.EFFECTIVE_TRAINING)
    ratio = Fraction(effective, ledger.e2e_us)

    assert ratio not in {Fraction(*pair) for pair in definitions(ledger).values()}


def test_a_job_that_only_queued_has_its_wait_and_nothing_else() -> None:
    ledger = folded([span(Phase.QUEUED, 0, 30)])

    assert definitions(ledger) == {
        "google_goodput": (0, 0),
        "cre_goodput": (0, 0),
        "ettr": (0, 30 * SECOND),
        "megascale_rate": (0, 0),
    }


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


@pytest.mark.slow
def test_a_long_log_is_tried_in_part_and_says_so() -> None:
    steps = [at(Progress, 100 + n, step=n) for n in range(200, 3000)]
    loop = [at(PhaseStarted, 100, phase=Phase.TRAIN_LOOP)]
    of = audit(recorded(*loop, *steps), 10_000 * S)

    assert (of.tried <= 142, of.of) == (True, 2801)
