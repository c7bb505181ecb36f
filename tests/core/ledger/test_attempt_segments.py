"""What an attempt takes from the attempts around it."""

import pickle
from collections import defaultdict

from hypothesis import given, settings

from ett_service.core.events import CheckpointRestored, Event, PhaseStarted
from ett_service.core.ledger.attempt_segments import AttemptSegments
from ett_service.core.ledger.attempts.attempts import Attempts, Clocks
from ett_service.core.ledger.attempts.lifetimes import RunEvents, find_lifetimes
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.job_results import gaps
from ett_service.core.ledger.results import JobLedger
from ett_service.core.ledger.runs import cut_run_segments
from ett_service.core.words import Basis, Category, Outcome, Phase
from tests.builders.drawn.timelines import Timeline, timelines
from tests.core.timeline import SECOND, ended, progress, saved, span, started

LOOP = Phase.TRAIN_LOOP


def _ledger(*events: Event, as_of_s: int = 1000) -> JobLedger:
    return fold(events, {}, as_of_s * SECOND)


def _seconds(ledger: JobLedger, category: Category, number: int) -> int:
    return ledger.attempts[number].categories_us.get(category, 0) // SECOND


def _first_attempt() -> tuple[Event, ...]:
    steps = [progress(10 * n, n) for n in range(1, 6)]
    return (started(0), span(LOOP, 0, 50), *steps, saved(30, 3), ended(50, Outcome.FAILED))


def test_without_a_restore_a_later_attempt_goes_on_from_the_last_checkpoint() -> None:
    ledger = _ledger(
        *_first_attempt(), started(60, 1), span(LOOP, 60, 100, 1), progress(100, 7, 1),
        ended(100, Outcome.COMPLETED, 1),
    )  # fmt: skip

    assert _seconds(ledger, Category.REPEATED_TRAINING, 1) == 20
    assert ledger.attempts[1].basis is Basis.STEPS


def test_a_restore_names_the_step_from_which_training_goes_on() -> None:
    restored = CheckpointRestored(id="r", at=58 * SECOND, attempt=1, step=5)
    ledger = _ledger(
        *_first_attempt(), restored, span(LOOP, 60, 100, 1), progress(100, 7, 1),
        ended(100, Outcome.COMPLETED, 1),
    )  # fmt: skip

    assert _seconds(ledger, Category.REPEATED_TRAINING, 1) == 0


def test_without_steps_the_loop_time_since_the_last_checkpoint_is_repeated() -> None:
    ledger = _ledger(
        *_first_attempt(), started(60, 1), span(LOOP, 60, 100, 1), ended(100, Outcome.COMPLETED, 1)
    )

    assert _seconds(ledger, Category.REPEATED_TRAINING, 1) == 20
    assert ledger.attempts[1].basis is Basis.CHECKPOINTS


def test_of_two_attempts_alive_the_later_owns_the_time() -> None:
    ledger = _ledger(
        started(0), span(LOOP, 0, 100), ended(100, Outcome.COMPLETED),
        started(40, 1), span(Phase.EVALUATION, 40, 60, 1), ended(60, Outcome.COMPLETED, 1),
    )  # fmt: skip

    assert [
        (segment.start_at // SECOND, segment.end_at // SECOND, segment.number)
        for segment in ledger.segments
    ] == [(0, 40, 0), (40, 60, 1), (60, 100, 0)]


def test_a_running_loop_that_went_silent_stalls_after_twice_its_mean_gap() -> None:
    loop = PhaseStarted(id="l", at=0, phase=LOOP)
    steps = [progress(10 * n, n) for n in range(1, 4)]
    ledger = _ledger(started(0), loop, *steps, as_of_s=100)

    assert ledger.attempts[0].silent_tail_us == 50 * SECOND
    assert ledger.due_at == (30 + 900) * SECOND


def test_a_hang_to_come_is_due_when_it_will_show() -> None:
    loop = PhaseStarted(id="l", at=0, phase=LOOP)
    steps = [progress(10 * n, n) for n in range(1, 4)]

    assert _ledger(started(0), loop, *steps, as_of_s=35).due_at == 50 * SECOND


def test_an_attempt_that_completed_has_no_silent_tail() -> None:
    loop = PhaseStarted(id="l", at=0, phase=LOOP)
    steps = [progress(10 * n, n) for n in range(1, 4)]
    ledger = _ledger(started(0), loop, *steps, ended(100, Outcome.COMPLETED))

    assert ledger.attempts[0].silent_tail_us == 0


@settings(max_examples=100, deadline=None)
@given(timeline=timelines)
def test_what_is_drawn_of_attempts_writes_nothing_into_them(timeline: Timeline) -> None:
    clocks, attempts = Clocks(), Attempts()
    clocks.admit(timeline.events, timeline.offsets)
    attempts.add(timeline.events, clocks)
    in_order = attempts.in_order()
    before = pickle.dumps(in_order)

    as_of = max(timeline.as_of, attempts.last_event_at)
    whole = RunEvents(in_order, attempts.job_ends)
    lifetimes = find_lifetimes(whole, as_of, attempts.last_sign_at, timeline.limits)
    job = cut_run_segments(lifetimes, defaultdict(AttemptSegments))
    for part in job.parts:
        gaps(part.owned, part.attempt_segments)

    assert pickle.dumps(in_order) == before


def test_a_compile_left_open_ends_with_progress_only_inside_a_loop() -> None:
    compiled = PhaseStarted(id="c", at=20 * SECOND, phase=Phase.PT2_COMPILE)
    steps = (progress(10, 1), progress(30, 2), progress(60, 3))
    outside = _ledger(started(0), compiled, *steps, ended(60, Outcome.COMPLETED))
    inside = _ledger(started(0), span(LOOP, 5, 60), compiled, *steps, ended(60, Outcome.COMPLETED))

    assert _seconds(outside, Category.PT2_COMPILE, 0) == 40
    assert _seconds(inside, Category.RECOMPILE, 0) == 10
    assert [gap.end_at for gap in inside.quality.gaps if gap.event_id == steps[1].id] == [
        30 * SECOND
    ]
