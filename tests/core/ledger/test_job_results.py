"""The weight of a second, and which accelerators were held."""

from collections import Counter

from ett_service.core.events import AttemptEnded, AttemptStarted, Event, JobFacts, PhaseStarted
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome, Phase
from tests.core.timeline import SECOND, ended, span, started


def _ledger(*events: Event) -> JobLedger:
    return fold(events, {}, 100 * SECOND)


def _cycle(at_s: int, cycle: int, gpus: int | None = None) -> Event:
    return AttemptStarted(id=f"c{cycle}", at=at_s * SECOND, cycle=cycle, gpus=gpus)


def _end(at_s: int, cycle: int) -> Event:
    return AttemptEnded(id=f"e{cycle}", at=at_s * SECOND, cycle=cycle, outcome=Outcome.FAILED)


def _sums(ledger: JobLedger, name: str) -> dict[Category, int]:
    sums: Counter[Category] = Counter()
    for share in ledger.shares:
        sums[share.category] += getattr(share, name)
    return {category: us // SECOND for category, us in sums.items() if us}


def test_a_cycle_without_a_size_has_that_of_the_cycle_before_not_the_jobs() -> None:
    facts = JobFacts(id="j", at=0, gpus=64)
    ledger = _ledger(facts, _cycle(0, 0, 8), _end(10, 0), _cycle(10, 1), _end(20, 1))

    assert [attempt.gpus for attempt in ledger.attempts] == [8, 8]


def test_the_wait_between_cycles_of_one_allocation_is_held() -> None:
    ledger = _ledger(_cycle(0, 0, 8), _end(10, 0), _cycle(15, 1), _end(20, 1))

    assert _sums(ledger, "gpu_us")[Category.RESTART_WAIT] == 5 * 8


def test_the_wait_for_another_attempt_is_not_held_but_weighted() -> None:
    ledger = _ledger(
        started(0, gpus=4), ended(10, Outcome.FAILED), started(15, 1, gpus=8),
        ended(20, Outcome.COMPLETED, 1),
    )  # fmt: skip

    assert Category.RESTART_WAIT not in _sums(ledger, "gpu_us")
    assert _sums(ledger, "weighted_us")[Category.RESTART_WAIT] == 5 * 4


def test_scheduling_holds_nothing() -> None:
    ledger = _ledger(started(0, gpus=4), span(Phase.SCHEDULING, 0, 6), ended(10, Outcome.COMPLETED))

    assert _sums(ledger, "gpu_us") == {Category.UNATTRIBUTED: 4 * 4}
    assert _sums(ledger, "weighted_us")[Category.SCHEDULING] == 6 * 4


def test_the_later_cycles_queue_takes_its_time_out_of_the_held_wait() -> None:
    queued = PhaseStarted(id="q", at=12 * SECOND, cycle=1, phase=Phase.QUEUED)
    ledger = _ledger(_cycle(0, 0, 8), _end(10, 0), queued, _cycle(15, 1), _end(20, 1))

    assert _sums(ledger, "gpu_us")[Category.RESTART_WAIT] == 2 * 8


def test_one_attempt_of_unknown_size_leaves_the_job_out_of_weighted_numbers() -> None:
    ledger = _ledger(started(0, gpus=4), ended(10, Outcome.FAILED), started(10, 1))

    assert ledger.quality.gpus_unknown
    assert {share.weighted_us for share in ledger.shares} == {None}
