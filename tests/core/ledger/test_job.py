"""The job's numbers: shares, recoveries, the wait in the queue."""

from ett_service.core.events import Event, PhaseStarted
from ett_service.core.intervals import LARGEST_STORED
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome, Period, Phase
from tests.core.timeline import SECOND, ended, progress, saved, span, started

LOOP = Phase.TRAIN_LOOP


def _ledger(*events: Event, as_of_s: int = 1000) -> JobLedger:
    return fold(events, {}, as_of_s * SECOND)


def test_a_recovery_goes_across_as_many_failed_attempts_as_it_takes() -> None:
    ledger = _ledger(
        started(0), span(LOOP, 0, 50), ended(50, Outcome.FAILED),
        started(60, 1), ended(70, Outcome.FAILED, 1),
        started(75, 2), ended(80, Outcome.FAILED, 2),
        started(90, 3), span(LOOP, 95, 99, 3), ended(99, Outcome.COMPLETED, 3),
    )  # fmt: skip
    (recovery,) = ledger.recoveries

    assert (recovery.interrupted, recovery.resumed, recovery.us) == (0, 3, 45 * SECOND)
    assert recovery.parts_us == {
        Category.RESTART_WAIT: 25 * SECOND,
        Category.UNATTRIBUTED: 20 * SECOND,
    }
    assert ledger.failures == 3


def test_a_recovery_that_has_not_reached_a_loop_is_open() -> None:
    ledger = _ledger(started(0), span(LOOP, 0, 50), ended(50, Outcome.FAILED), started(60, 1),
                     as_of_s=65)  # fmt: skip

    assert [(recovery.resumed, recovery.us) for recovery in ledger.recoveries] == [
        (None, 15 * SECOND)
    ]


def test_repeated_time_stands_beside_the_recovery_not_in_it() -> None:
    ledger = _ledger(
        started(0), span(LOOP, 0, 50), progress(10, 1), progress(50, 5), saved(20, 2),
        ended(50, Outcome.FAILED),
        started(60, 1), span(LOOP, 60, 100, 1), progress(70, 3, 1), progress(100, 6, 1),
        ended(100, Outcome.COMPLETED, 1),
    )  # fmt: skip
    (recovery,) = ledger.recoveries

    assert recovery.us == 10 * SECOND
    assert recovery.repeated_us == 30 * SECOND


def test_shares_partition_e2e_by_category_period_and_reported_phase() -> None:
    ledger = _ledger(
        started(0), span(Phase.SCHEDULING, 0, 5), span(LOOP, 10, 40),
        span(Phase.EVALUATION, 20, 30), ended(45, Outcome.COMPLETED),
    )  # fmt: skip

    assert sum(share.us for share in ledger.shares) == ledger.e2e_us == 45 * SECOND
    assert {
        (share.category, share.period, share.phase): share.us // SECOND for share in ledger.shares
    } == {
        (Category.SCHEDULING, Period.SCHEDULING, Phase.SCHEDULING): 5,
        (Category.UNATTRIBUTED, Period.STARTING, None): 5,
        (Category.EFFECTIVE_TRAINING, Period.TRAINING, LOOP): 20,
        (Category.EVALUATION, Period.TRAINING, Phase.EVALUATION): 10,
        (Category.UNATTRIBUTED, Period.ENDING, None): 5,
    }


def test_waiting_in_a_queue_before_the_first_instant_stands_beside_e2e() -> None:
    queued = PhaseStarted(id="q", at=0, phase=Phase.QUEUED)
    ledger = _ledger(queued, span(Phase.SCHEDULING, 30, 35), ended(40, Outcome.COMPLETED))

    assert ledger.queue_wait_us == 30 * SECOND
    assert ledger.e2e_us == 10 * SECOND


def test_waiting_in_a_queue_again_is_a_restart_wait() -> None:
    ledger = _ledger(started(0), span(Phase.QUEUED, 10, 20), ended(30, Outcome.COMPLETED))

    assert {share.category: share.us // SECOND for share in ledger.shares} == {
        Category.UNATTRIBUTED: 20,
        Category.RESTART_WAIT: 10,
    }


def test_a_clock_gone_wrong_gives_no_weight_that_a_store_cannot_keep() -> None:
    ledger = _ledger(started(0, gpus=10**6), ended(10**10, Outcome.FAILED))

    assert {share.weighted_us for share in ledger.shares} == {LARGEST_STORED}
