"""Runs: a completed job whose name is used again begins anew."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ett_service.core.events import Event, JobEnded, PhaseStarted
from ett_service.core.ledger.attempt_results import AttemptKey, FailureVerdict, corrected
from ett_service.core.ledger.fold import JobFold, fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Cause, JobState, Origin, Outcome, Phase
from tests.core.timeline import SECOND, ended, progress, saved, span, started

LOOP = Phase.TRAIN_LOOP
DAY_S = 86_400


def _of(launch: str, *events: Event) -> list[Event]:
    return [replace(event, id=f"{launch}-{event.id}", launch=launch) for event in events]


def _trained(launch: str, at_s: float, steps: Sequence[int] = (1, 2, 3)) -> list[Event]:
    """Ten seconds to start, then sixty in the loop, of which the last step ends."""
    marks = [progress(at_s + 10 + 20 * (place + 1), step) for place, step in enumerate(steps)]
    return _of(
        launch,
        started(at_s, gpus=8),
        span(LOOP, at_s + 10, at_s + 70),
        *marks,
        ended(at_s + 80, Outcome.COMPLETED),
    )


def _over(at_s: float, outcome: Outcome = Outcome.COMPLETED) -> Event:
    return JobEnded(id=f"over-{at_s}", at=int(at_s * SECOND), outcome=outcome)


def _queued(at_s: float) -> Event:
    return PhaseStarted(id=f"queued-{at_s}", at=int(at_s * SECOND), phase=Phase.QUEUED)


def _ledger(*events: Event, as_of_s: float = 9 * DAY_S) -> JobLedger:
    return fold(events, {}, int(as_of_s * SECOND))


def _ratio(ledger: JobLedger) -> float:
    effective = sum(run.effective_us for run in ledger.runs)
    return effective / ledger.e2e_us


def test_time_between_runs_is_in_no_category() -> None:
    once = _ledger(*_trained("a", 0), _over(80))
    twice = _ledger(*_trained("a", 0), _over(80), *_trained("b", DAY_S))

    assert len(twice.runs) == 2
    assert _ratio(twice) == _ratio(once) == 60 / 80
    assert twice.e2e_us == 160 * SECOND
    assert twice.between_runs_us == (DAY_S - 80) * SECOND
    assert not any(share.category is Category.RESTART_WAIT for share in twice.shares)
    assert twice.recoveries == ()
    assert [run.time_to_start_us for run in twice.runs] == [10 * SECOND] * 2
    assert twice.time_to_start_us == 20 * SECOND


def test_without_a_job_ended_a_completed_attempt_and_the_next_are_one_run() -> None:
    ledger = _ledger(*_trained("a", 0), *_trained("b", DAY_S))

    assert len(ledger.runs) == 1
    assert ledger.e2e_us == (DAY_S + 80) * SECOND


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CANCELLED, Outcome.PREEMPTED])
def test_a_job_that_did_not_complete_goes_on_in_its_run(outcome: Outcome) -> None:
    ledger = _ledger(*_trained("a", 0), _over(80, outcome), *_trained("b", 200))

    assert len(ledger.runs) == 1
    assert ledger.e2e_us == 280 * SECOND


def test_another_attempt_of_a_launch_that_had_begun_contradicts_the_end() -> None:
    again = _of("a", started(200, attempt=1), ended(210, Outcome.COMPLETED, attempt=1))
    ledger = _ledger(*_trained("a", 0), _over(80), *again)

    assert len(ledger.runs) == 1
    assert ledger.outcome is None


def test_a_launch_that_waited_at_the_end_goes_on_with_the_run() -> None:
    ledger = _ledger(*_trained("a", 0), _over(80), *_of("b", _queued(50)), *_trained("b", 200))

    assert len(ledger.runs) == 1


def test_several_ends_with_no_launch_in_between_end_one_run() -> None:
    ends = [_over(80), _over(90), _over(95, Outcome.CANCELLED)]
    ledger = _ledger(*_trained("a", 0), *ends, *_trained("b", 200), _over(280))

    assert [run.launches for run in ledger.runs] == [("a",), ("b",)]
    assert ledger.runs[0].outcome is Outcome.COMPLETED


def test_time_queued_before_a_later_run_is_its_queue_wait() -> None:
    ledger = _ledger(*_trained("a", 0), _over(80), *_of("b", _queued(170)), *_trained("b", 200))

    assert [run.queue_wait_us for run in ledger.runs] == [0, 30 * SECOND]
    assert ledger.between_runs_us == 90 * SECOND


def test_a_job_that_queues_for_its_next_run_keeps_the_numbers_of_the_last() -> None:
    ledger = _ledger(*_trained("a", 0), _over(80), *_of("b", _queued(100)), as_of_s=150)

    assert ledger.state is JobState.QUEUED
    assert [run.state for run in ledger.runs] == [JobState.FINISHED, JobState.QUEUED]
    assert (ledger.e2e_us, ledger.queue_wait_us) == (80 * SECOND, 50 * SECOND)
    assert ledger.ended_at == 80 * SECOND


def test_steps_of_a_run_before_repeat_nothing() -> None:
    restarted = _of("a", saved(70, 3))
    ledger = _ledger(*_trained("a", 0), *restarted, _over(80), *_trained("b", 200))

    assert ledger.attempts[1].categories_us[Category.EFFECTIVE_TRAINING] == 60 * SECOND
    assert Category.REPEATED_TRAINING not in ledger.attempts[1].categories_us


def test_a_late_event_of_a_run_before_counts_in_that_run() -> None:
    on_time = [*_trained("a", 0), _over(80), *_trained("b", DAY_S)]
    late = _of("a", span(Phase.EVALUATION, 20, 30))
    job = JobFold()
    job.add(on_time, {})
    job.ledger(9 * DAY_S * SECOND)
    assert job.add(late, {})

    ledger = job.ledger(9 * DAY_S * SECOND)

    assert ledger == _ledger(*on_time, *late)
    assert [run.effective_us // SECOND for run in ledger.runs] == [50, 60]


def test_what_goes_on_when_the_next_run_begins_is_cut_there() -> None:
    endless = _of("a", started(0), span(LOOP, 10, 300))
    ledger = _ledger(*endless, _over(80), *_trained("b", 200))

    assert [(run.started_at, run.ended_at) for run in ledger.runs] == [
        (0, 200 * SECOND),
        (200 * SECOND, 280 * SECOND),
    ]
    assert ledger.attempts[0].outcome is Outcome.COMPLETED


def test_an_attempt_that_nothing_ends_is_lost_with_its_run() -> None:
    beside = _of("a", started(90, attempt=1))
    ledger = _ledger(*_trained("a", 0), _over(80), *beside, *_trained("b", 100), as_of_s=180)

    assert [attempt.outcome for attempt in ledger.attempts] == [
        Outcome.COMPLETED,
        Outcome.LOST,
        Outcome.COMPLETED,
    ]
    assert [run.failures for run in ledger.runs] == [1, 0]


def test_attempts_are_numbered_through_all_runs() -> None:
    ledger = _ledger(*_trained("a", 0), _over(80), *_trained("b", 200), _over(280))

    assert [attempt.number for attempt in ledger.attempts] == [0, 1]
    assert [(run.first_attempt, run.attempts) for run in ledger.runs] == [(0, 1), (1, 1)]
    assert {segment.number for segment in ledger.segments} == {0, 1}


def test_a_run_that_begins_again_is_folded_forward() -> None:
    job = JobFold()
    job.add([*_trained("a", 0), _over(80)], {})
    first = job.ledger(9 * DAY_S * SECOND)
    assert job.add(_trained("b", DAY_S), {})

    ledger = job.ledger(9 * DAY_S * SECOND)

    assert ledger.attempts[0] is first.attempts[0]
    assert ledger == _ledger(*_trained("a", 0), _over(80), *_trained("b", DAY_S))


def test_work_is_counted_from_the_beginning_of_each_run() -> None:
    def reported(launch: str, at_s: float) -> list[Event]:
        return [
            replace(event, tokens=1_000) if event.type == "progress" else event
            for event in _trained(launch, at_s)
        ]

    ledger = _ledger(*reported("a", 0), _over(80), *reported("b", DAY_S))

    assert ledger.produced.tokens == 2_000
    assert [done.number for done in ledger.work] == [0, 1]


def test_a_verdict_counts_in_the_run_of_its_failure() -> None:
    failing = _of("b", started(200), ended(210, Outcome.FAILED))
    ledger = _ledger(*_trained("a", 0), _over(80), *failing)
    verdict = FailureVerdict(Origin.INFRA, Cause.HOST, "because", "ett_00000000", 0)

    judged = corrected(ledger, {AttemptKey("b", 0, 0): verdict})

    assert [run.infra_failures for run in judged.runs] == [0, 1]
