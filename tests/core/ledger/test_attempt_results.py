"""The results of one attempt."""

from dataclasses import replace

from ett_service.core.events import AttemptEnded, AttemptStarted, Event, JobEnded
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import DataWait, JobLedger
from ett_service.core.words import Category, Cause, Origin, Outcome, Phase
from tests.core.timeline import SECOND, ended, progress, saved, span, started


def _ledger(*events: Event) -> JobLedger:
    return fold(events, {}, 1000 * SECOND)


def _trained(*more: Event) -> tuple[Event, ...]:
    return (started(0), span(Phase.TRAIN_LOOP, 0, 100), progress(50, 5), *more)


def test_unsaved_time_runs_from_the_last_durable_checkpoint_to_the_end_of_a_failure() -> None:
    ledger = _ledger(*_trained(saved(60, 6), ended(100, Outcome.FAILED)))

    assert ledger.unsaved_us == 40 * SECOND


def test_without_a_checkpoint_all_of_it_is_unsaved_and_of_a_success_nothing() -> None:
    failed = _ledger(*_trained(ended(100, Outcome.FAILED)))
    completed = _ledger(*_trained(ended(100, Outcome.COMPLETED)))

    assert (failed.unsaved_us, completed.unsaved_us) == (100 * SECOND, 0)


def test_the_evidence_of_a_failure_names_the_event_that_decided() -> None:
    killed = AttemptEnded(id="k", at=100 * SECOND, cycle=0, outcome=Outcome.FAILED, exit_code=137)
    (attempt,) = _ledger(*_trained(killed)).attempts

    assert attempt.evidence is not None
    assert attempt.evidence.event_id == "k"
    assert "137" in attempt.evidence.text


def test_lost_without_evidence_is_lost_contact_of_unknown_origin() -> None:
    (attempt,) = fold([started(0)], {}, 3600 * SECOND).attempts

    assert (attempt.origin, attempt.cause) == (Origin.UNKNOWN, Cause.LOST_CONTACT)


def test_what_is_not_a_failure_has_no_origin() -> None:
    (attempt,) = _ledger(*_trained(ended(100, Outcome.CANCELLED))).attempts

    assert (attempt.origin, attempt.cause, attempt.evidence) == (None, None, None)


def test_the_attempts_own_code_version_wins_for_its_time() -> None:
    own = AttemptStarted(id="s", at=0, code_version="abc")
    (attempt,) = _ledger(own, ended(10, Outcome.COMPLETED)).attempts

    assert attempt.code_version == "abc"
    assert attempt.categories_us == {Category.UNATTRIBUTED: 10 * SECOND}


def test_the_end_of_the_job_is_evidence_for_the_attempt_that_it_ends() -> None:
    over = JobEnded(id="j", at=100 * SECOND, outcome=Outcome.FAILED, scheduler_state="NODE_FAIL")
    (attempt,) = _ledger(*_trained(over)).attempts

    assert attempt.origin is Origin.INFRA
    assert attempt.evidence is not None
    assert attempt.evidence.event_id == "j"


def _waited(at_s: float, seconds: float) -> Event:
    attributes = {"data_wait_seconds": seconds}
    return replace(progress(at_s, 10, 0), id=f"waited-{at_s}", attributes=attributes)


def test_the_wait_for_data_is_over_the_loop_time_up_to_its_last_report() -> None:
    stopped = span(Phase.CHECKPOINT_BLOCKING, 60, 70)
    ledger = _ledger(*_trained(stopped, _waited(30, 6), _waited(80, 14)))

    assert ledger.attempts[0].data_wait == DataWait(14 * SECOND, 70 * SECOND)
    assert ledger.data_wait == DataWait(14 * SECOND, 70 * SECOND)


def test_no_more_was_waited_for_data_than_the_loop_lasted() -> None:
    (attempt,) = _ledger(*_trained(_waited(80, 1e12))).attempts

    assert attempt.data_wait == DataWait(80 * SECOND, 80 * SECOND)


def test_a_job_sums_the_waits_of_the_attempts_that_report_them() -> None:
    first = _trained(_waited(40, 4), ended(100, Outcome.FAILED))
    silent = (started(200, 1), span(Phase.TRAIN_LOOP, 210, 300, 1))
    second = replace(_waited(360, 6), attempt=2)
    ledger = _ledger(*first, *silent, started(310, 2), span(Phase.TRAIN_LOOP, 340, 360, 2), second)

    assert [attempt.data_wait is None for attempt in ledger.attempts] == [False, True, False]
    assert ledger.data_wait == DataWait(10 * SECOND, 60 * SECOND)
    assert _ledger(*_trained()).data_wait is None
