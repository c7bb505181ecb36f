"""Where in the job's life a second lies."""

from ett_service.core.events import Event
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome, Period, Phase
from tests.core.timeline import SECOND, ended, span, started

LOOP = Phase.TRAIN_LOOP


def _periods(*events: Event, as_of_s: int = 1000) -> list[tuple[int, int, Period]]:
    joined: list[tuple[int, int, Period]] = []
    ledger: JobLedger = fold(events, {}, as_of_s * SECOND)
    for segment in ledger.segments:
        start, end = segment.start_at // SECOND, segment.end_at // SECOND
        if joined and joined[-1][2] is segment.period:
            joined[-1] = (joined[-1][0], end, segment.period)
        else:
            joined.append((start, end, segment.period))
    return joined


def test_a_life_with_one_interruption_has_all_five_periods() -> None:
    assert _periods(
        started(0), span(Phase.SCHEDULING, 0, 5), span(Phase.HARDWARE_SETUP, 5, 20),
        span(LOOP, 30, 60), ended(65, Outcome.FAILED),
        started(70, 1), span(LOOP, 80, 90, 1), ended(95, Outcome.COMPLETED, 1),
    ) == [
        (0, 5, Period.SCHEDULING),
        (5, 30, Period.STARTING),
        (30, 60, Period.TRAINING),
        (60, 80, Period.RECOVERING),
        (80, 90, Period.TRAINING),
        (90, 95, Period.ENDING),
    ]  # fmt: skip


def test_what_lies_between_loops_of_one_attempt_is_training() -> None:
    assert _periods(
        started(0), span(LOOP, 10, 20), span(LOOP, 30, 40), ended(50, Outcome.COMPLETED)
    ) == [(0, 10, Period.STARTING), (10, 40, Period.TRAINING), (40, 50, Period.ENDING)]


def test_without_a_loop_all_after_the_allocation_is_starting() -> None:
    assert _periods(started(0), span(Phase.SCHEDULING, 0, 5), ended(50, Outcome.FAILED)) == [
        (0, 5, Period.SCHEDULING),
        (5, 50, Period.STARTING),
    ]


def test_the_allocation_is_never_after_the_first_loop() -> None:
    assert _periods(
        started(0), span(LOOP, 10, 20), span(Phase.HARDWARE_SETUP, 30, 40),
        ended(50, Outcome.COMPLETED),
    )[0] == (0, 10, Period.SCHEDULING)  # fmt: skip


def test_a_job_that_goes_on_after_its_last_loop_recovers() -> None:
    assert _periods(
        started(0), span(LOOP, 0, 20), ended(30, Outcome.FAILED), started(40, 1), as_of_s=60
    ) == [(0, 20, Period.TRAINING), (20, 60, Period.RECOVERING)]


def test_the_checkpoint_that_outlasts_its_loop_ends_the_training_at_the_loops_end() -> None:
    ledger = fold(
        [
            started(0), span(LOOP, 0, 20), span(Phase.CHECKPOINT_BLOCKING, 15, 25),
            ended(30, Outcome.COMPLETED),
        ],
        {},
        60 * SECOND,
    )  # fmt: skip

    assert [
        (segment.start_at // SECOND, segment.period)
        for segment in ledger.segments
        if segment.category is Category.CHECKPOINT_BLOCKING
    ] == [(15, Period.TRAINING), (20, Period.ENDING)]
