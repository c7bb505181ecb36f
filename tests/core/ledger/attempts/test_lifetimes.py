"""When attempts begin and end, how, and the state of the job."""

import pytest

from ett_service.core.events import AttemptEnded, Event, Heartbeat, JobEnded, PhaseStarted
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import JobState, Origin, Outcome, Phase
from tests.core.timeline import SECOND, ended, progress, span, started

MINUTE = 60


def _ledger(*events: Event, as_of_s: float = 100) -> JobLedger:
    return fold(events, {}, int(as_of_s * SECOND))


def _beat(at_s: float, rank: int | None = None, attempt: int = 0) -> Event:
    return Heartbeat(id=f"h{at_s}-{rank}", at=int(at_s * SECOND), rank=rank, attempt=attempt)


def test_an_attempt_heard_of_lately_runs_and_its_numbers_run_to_as_of() -> None:
    ledger = _ledger(started(0), as_of_s=15 * MINUTE - 1)

    assert (ledger.state, ledger.provisional) == (JobState.RUNNING, True)
    assert ledger.e2e_us == (15 * MINUTE - 1) * SECOND


def test_after_a_quarter_of_an_hour_of_silence_it_is_lost_where_it_was_last_heard() -> None:
    ledger = _ledger(started(0), _beat(10), as_of_s=15 * MINUTE + 10)

    assert ledger.state is JobState.INTERRUPTED
    assert [(attempt.outcome, attempt.ended_at) for attempt in ledger.attempts] == [
        (Outcome.LOST, 10 * SECOND)
    ]


def test_a_later_attempt_that_begins_ends_the_one_before_at_once() -> None:
    ledger = _ledger(started(0), _beat(10), started(20, attempt=1), as_of_s=30)

    assert [attempt.outcome for attempt in ledger.attempts] == [Outcome.LOST, Outcome.RUNNING]
    assert ledger.attempts[0].ended_at == 10 * SECOND


def test_a_job_ended_ends_what_still_runs_with_its_outcome() -> None:
    over = JobEnded(id="j", at=50 * SECOND, outcome=Outcome.CANCELLED)
    ledger = _ledger(started(0), _beat(10), over)

    assert ledger.state is JobState.FINISHED
    assert [(attempt.outcome, attempt.ended_at) for attempt in ledger.attempts] == [
        (Outcome.CANCELLED, 50 * SECOND)
    ]


def test_a_job_ended_does_not_stand_once_an_attempt_begins_after_it() -> None:
    over = JobEnded(id="j", at=5 * SECOND, outcome=Outcome.COMPLETED)
    ledger = _ledger(started(0), over, started(10, attempt=1), as_of_s=20)

    assert ledger.state is JobState.RUNNING
    assert ledger.outcome is None


def test_a_rank_that_fails_while_the_stream_goes_on_gives_the_cause_but_not_the_end() -> None:
    failed = AttemptEnded(
        id="f", at=10 * SECOND, rank=3, cycle=0, outcome=Outcome.FAILED, origin=Origin.INFRA
    )
    ledger = _ledger(started(0), failed, progress(12, 1), as_of_s=20 * MINUTE)

    assert [(attempt.outcome, attempt.origin) for attempt in ledger.attempts] == [
        (Outcome.LOST, Origin.INFRA)
    ]


@pytest.mark.parametrize(("later_s", "outcome"), [(70, Outcome.PREEMPTED), (71, Outcome.FAILED)])
def test_a_preemption_within_a_minute_explains_the_failure(
    later_s: float, outcome: Outcome
) -> None:
    ledger = _ledger(
        started(0), ended(10, Outcome.FAILED), ended(later_s, Outcome.PREEMPTED), as_of_s=90
    )

    assert [attempt.outcome for attempt in ledger.attempts] == [outcome]
    assert ledger.attempts[0].ended_at == later_s * SECOND


def test_scheduling_begins_the_job_even_if_a_launcher_spoke_before() -> None:
    ledger = _ledger(started(0), span(Phase.SCHEDULING, 5, 10), as_of_s=20)

    assert ledger.started_at == 5 * SECOND


def test_a_job_that_waits_in_a_queue_is_queued_for_a_week() -> None:
    queued = PhaseStarted(id="q", at=0, phase=Phase.QUEUED)
    week_s = 7 * 24 * 3600

    waiting = _ledger(queued, as_of_s=week_s - 1)
    given_up = _ledger(queued, as_of_s=week_s)

    assert (waiting.state, waiting.queue_wait_us) == (JobState.QUEUED, (week_s - 1) * SECOND)
    assert (given_up.state, given_up.queue_wait_us) == (JobState.FINISHED, 0)
    assert waiting.attempts == ()
