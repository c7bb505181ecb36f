"""The numbers of each run, and of a job that has several."""

from dataclasses import replace

from ett_service.core.events import Event, Progress
from ett_service.core.ledger.attempt_results import AttemptKey, FailureVerdict, corrected
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Cause, JobState, Origin, Outcome
from tests.core.timeline import SECOND, ended, of_launch, over, queued, saved, started, trained

DAY_S = 86_400


def _ledger(*events: Event, as_of_s: float = 9 * DAY_S) -> JobLedger:
    return fold(events, {}, int(as_of_s * SECOND))


def _ratio(ledger: JobLedger) -> float:
    effective = sum(run.effective_us for run in ledger.runs)
    return effective / ledger.e2e_us


def test_time_between_runs_is_in_no_category() -> None:
    once = _ledger(*trained("a", 0), over(80))
    twice = _ledger(*trained("a", 0), over(80), *trained("b", DAY_S))

    assert len(twice.runs) == 2
    assert _ratio(twice) == _ratio(once) == 60 / 80
    assert twice.e2e_us == 160 * SECOND
    assert twice.between_runs_us == (DAY_S - 80) * SECOND
    assert not any(share.category is Category.RESTART_WAIT for share in twice.shares)
    assert twice.recoveries == ()
    assert [run.time_to_start_us for run in twice.runs] == [10 * SECOND] * 2
    assert twice.time_to_start_us == 20 * SECOND


def test_time_queued_before_a_later_run_is_its_queue_wait() -> None:
    ledger = _ledger(*trained("a", 0), over(80), *of_launch("b", queued(170)), *trained("b", 200))

    assert [run.queue_wait_us for run in ledger.runs] == [0, 30 * SECOND]
    assert ledger.between_runs_us == 90 * SECOND


def test_a_job_that_queues_for_its_next_run_keeps_the_numbers_of_the_last() -> None:
    ledger = _ledger(*trained("a", 0), over(80), *of_launch("b", queued(100)), as_of_s=150)

    assert ledger.state is JobState.QUEUED
    assert [run.state for run in ledger.runs] == [JobState.FINISHED, JobState.QUEUED]
    assert (ledger.e2e_us, ledger.queue_wait_us) == (80 * SECOND, 50 * SECOND)
    assert ledger.ended_at == 80 * SECOND


def test_steps_of_a_run_before_repeat_nothing() -> None:
    restarted = of_launch("a", saved(70, 3))
    ledger = _ledger(*trained("a", 0), *restarted, over(80), *trained("b", 200))

    assert ledger.attempts[1].categories_us[Category.EFFECTIVE_TRAINING] == 60 * SECOND
    assert Category.REPEATED_TRAINING not in ledger.attempts[1].categories_us


def test_attempts_are_numbered_through_all_runs() -> None:
    ledger = _ledger(*trained("a", 0), over(80), *trained("b", 200), over(280))

    assert [attempt.number for attempt in ledger.attempts] == [0, 1]
    assert [(run.first_attempt, run.attempts) for run in ledger.runs] == [(0, 1), (1, 1)]
    assert {segment.number for segment in ledger.segments} == {0, 1}


def test_work_is_counted_from_the_beginning_of_each_run() -> None:
    def reported(launch: str, at_s: float) -> list[Event]:
        return [
            replace(event, tokens=1_000) if isinstance(event, Progress) else event
            for event in trained(launch, at_s)
        ]

    ledger = _ledger(*reported("a", 0), over(80), *reported("b", DAY_S))

    assert ledger.produced.tokens == 2_000
    assert [done.number for done in ledger.work] == [0, 1]


def test_a_verdict_counts_in_the_run_of_its_failure() -> None:
    failing = of_launch("b", started(200), ended(210, Outcome.FAILED))
    ledger = _ledger(*trained("a", 0), over(80), *failing)
    verdict = FailureVerdict(Origin.INFRA, Cause.HOST, "because", "ett_00000000", 0)

    judged = corrected(ledger, {AttemptKey("b", 0, 0): verdict})

    assert [run.infra_failures for run in judged.runs] == [0, 1]
