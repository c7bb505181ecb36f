"""Runs: a completed job whose name is used again begins anew."""

import pytest

from ett_service.core.events import Event
from ett_service.core.ledger.fold import JobFold, fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Outcome, Phase
from tests.core.timeline import SECOND, ended, of_launch, over, queued, span, started, trained

DAY_S = 86_400


def _ledger(*events: Event, as_of_s: float = 9 * DAY_S) -> JobLedger:
    return fold(events, {}, int(as_of_s * SECOND))


def test_without_a_job_ended_a_completed_attempt_and_the_next_are_one_run() -> None:
    ledger = _ledger(*trained("a", 0), *trained("b", DAY_S))

    assert len(ledger.runs) == 1
    assert ledger.e2e_us == (DAY_S + 80) * SECOND


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CANCELLED, Outcome.PREEMPTED])
def test_a_job_that_did_not_complete_goes_on_in_its_run(outcome: Outcome) -> None:
    ledger = _ledger(*trained("a", 0), over(80, outcome), *trained("b", 200))

    assert len(ledger.runs) == 1
    assert ledger.e2e_us == 280 * SECOND


def test_another_attempt_of_a_launch_that_had_begun_contradicts_the_end() -> None:
    again = of_launch("a", started(200, attempt=1), ended(210, Outcome.COMPLETED, attempt=1))
    ledger = _ledger(*trained("a", 0), over(80), *again)

    assert len(ledger.runs) == 1
    assert ledger.outcome is None


def test_a_launch_that_waited_at_the_end_goes_on_with_the_run() -> None:
    ledger = _ledger(*trained("a", 0), over(80), *of_launch("b", queued(50)), *trained("b", 200))

    assert len(ledger.runs) == 1


def test_no_run_ends_while_a_launch_waits_that_begins_later() -> None:
    waited = [*of_launch("b", queued(50)), *trained("b", 300)]
    ledger = _ledger(*trained("a", 0), over(80), *waited, *trained("c", 200))

    assert len(ledger.runs) == 1
    assert [attempt.launch for attempt in ledger.attempts] == ["a", "c", "b"]


def test_several_ends_with_no_launch_in_between_end_one_run() -> None:
    ends = [over(80), over(90), over(95, Outcome.CANCELLED)]
    ledger = _ledger(*trained("a", 0), *ends, *trained("b", 200), over(280))

    assert [run.launches for run in ledger.runs] == [("a",), ("b",)]
    assert ledger.runs[0].outcome is Outcome.COMPLETED


def test_a_late_event_of_a_run_before_counts_in_that_run() -> None:
    on_time = [*trained("a", 0), over(80), *trained("b", DAY_S)]
    late = of_launch("a", span(Phase.EVALUATION, 20, 30))
    job = JobFold()
    job.add(on_time, {})
    job.ledger(9 * DAY_S * SECOND)
    assert job.add(late, {})

    ledger = job.ledger(9 * DAY_S * SECOND)

    assert ledger == _ledger(*on_time, *late)
    assert [run.effective_us // SECOND for run in ledger.runs] == [50, 60]


def test_what_goes_on_when_the_next_run_begins_is_cut_there() -> None:
    endless = of_launch("a", started(0), span(Phase.TRAIN_LOOP, 10, 300))
    ledger = _ledger(*endless, over(80), *trained("b", 200))

    assert [(run.started_at, run.ended_at) for run in ledger.runs] == [
        (0, 200 * SECOND),
        (200 * SECOND, 280 * SECOND),
    ]
    assert ledger.attempts[0].outcome is Outcome.COMPLETED


def test_an_attempt_that_nothing_ends_is_lost_with_its_run() -> None:
    beside = of_launch("a", started(90, attempt=1))
    ledger = _ledger(*trained("a", 0), over(80), *beside, *trained("b", 100), as_of_s=180)

    assert [attempt.outcome for attempt in ledger.attempts] == [
        Outcome.COMPLETED,
        Outcome.LOST,
        Outcome.COMPLETED,
    ]
    assert [run.failures for run in ledger.runs] == [1, 0]


def test_a_run_that_begins_again_is_folded_forward() -> None:
    job = JobFold()
    job.add([*trained("a", 0), over(80)], {})
    first = job.ledger(9 * DAY_S * SECOND)
    assert job.add(trained("b", DAY_S), {})

    ledger = job.ledger(9 * DAY_S * SECOND)

    assert ledger.attempts[0] is first.attempts[0]
    assert ledger == _ledger(*trained("a", 0), over(80), *trained("b", DAY_S))
