"""Seven jobs that the nearest peer gets wrong, with the true answers.

What ml-goodput-measurement 0.2.3 says of each stands in the docstrings.
"""

from ett_service.core.events import Event
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, JobState, Outcome, Phase
from tests.core.timeline import SECOND, ended, progress, saved, span, started

_YEAR_S = 365 * 86_400


def folded(events: list[Event], as_of_s: float = 10_000) -> JobLedger:
    return fold(events, {}, int(as_of_s * SECOND))


def seconds(ledger: JobLedger, category: Category) -> float:
    return sum(share.us for share in ledger.shares if share.category is category) / SECOND


def ett_ratio(ledger: JobLedger) -> float:
    return seconds(ledger, Category.EFFECTIVE_TRAINING) * SECOND / ledger.e2e_us


def steps(start_s: int, end_s: int, first: int, attempt: int = 0) -> list[Event]:
    """One step every 10 s, the first done at once."""
    return [
        progress(at_s, first + step, attempt)
        for step, at_s in enumerate(range(start_s, end_s + 1, 10))
    ]


def test_an_outage_before_a_clean_resume_is_not_one_long_productive_step() -> None:
    """The peer: goodput 98.9 %, no disruption."""
    ledger = folded(
        [
            span(Phase.TRAIN_LOOP, 0, 100),
            *steps(0, 100, first=0),
            saved(100, step=10),
            ended(100, Outcome.PREEMPTED),
            span(Phase.TRAIN_LOOP, 800, 900, attempt=1),
            *steps(800, 900, first=11, attempt=1),
            ended(900, Outcome.COMPLETED, attempt=1),
        ]
    )

    assert ett_ratio(ledger) == 200 / 900
    assert ledger.failures == 1
    assert [recovery.us for recovery in ledger.recoveries] == [700 * SECOND]
    assert seconds(ledger, Category.RESTART_WAIT) == 700


def test_launches_that_fail_before_the_first_step_are_failures() -> None:
    """The peer: no disruption, all 1,900 s in "other"."""
    events: list[Event] = []
    for attempt, start in enumerate([0, 500, 1000]):
        events += [
            span(Phase.LAUNCHER_INIT, start, start + 400, attempt),
            ended(start + 400, Outcome.FAILED, attempt),
        ]
    events += [
        span(Phase.LAUNCHER_INIT, 1500, 1900, attempt=3),
        span(Phase.TRAIN_LOOP, 1900, 2900, attempt=3),
        ended(2900, Outcome.COMPLETED, attempt=3),
    ]
    ledger = folded(events)

    assert ledger.failures == 3
    assert ledger.time_to_start_us == 1900 * SECOND
    assert seconds(ledger, Category.LAUNCHER_INIT) == 1600
    assert seconds(ledger, Category.RESTART_WAIT) == 300
    assert ett_ratio(ledger) == 1000 / 2900


def test_setup_phases_that_overlap_cost_their_union() -> None:
    """The peer: 100 s and 90 s lost in a gap of 100 s."""
    ledger = folded(
        [
            span(Phase.HARDWARE_SETUP, 0, 100),
            span(Phase.LAUNCHER_INIT, 10, 100),
            span(Phase.TRAIN_LOOP, 100, 200),
            ended(200, Outcome.COMPLETED),
        ]
    )

    assert ledger.time_to_start_us == 100 * SECOND
    assert seconds(ledger, Category.HARDWARE_SETUP) == 10
    assert seconds(ledger, Category.LAUNCHER_INIT) == 90


def test_an_evaluation_across_a_step_boundary_is_counted() -> None:
    """The peer: dropped, goodput 100 %."""
    ledger = folded(
        [
            span(Phase.TRAIN_LOOP, 0, 100),
            *steps(0, 100, first=0),
            span(Phase.EVALUATION, 35, 55),
            ended(100, Outcome.COMPLETED),
        ]
    )

    assert seconds(ledger, Category.EVALUATION) == 20
    assert ett_ratio(ledger) == 80 / 100


def test_a_record_that_arrives_out_of_order_changes_nothing() -> None:
    """The peer: goodput 70 %."""
    first, *others = [
        span(Phase.TRAIN_LOOP, 0, 100),
        *steps(0, 100, first=0),
        ended(100, Outcome.COMPLETED),
    ]
    others.insert(3, others.pop(8))
    ledger = folded([*others, first])

    assert ett_ratio(ledger) == 1


def test_a_record_delivered_twice_is_no_disruption() -> None:
    """The peer: one disruption."""
    events = [
        span(Phase.TRAIN_LOOP, 0, 100),
        *steps(0, 100, first=0),
        ended(100, Outcome.COMPLETED),
    ]
    ledger = folded([*events, events[5]])

    assert ledger.failures == 0
    assert ledger.recoveries == ()
    assert ett_ratio(ledger) == 1


def test_a_job_that_died_in_silence_stays_as_it_was_last_heard() -> None:
    """The peer: elapsed time grows to "now" for ever, goodput falls to 0 %."""
    events = [
        started(0),
        span(Phase.LAUNCHER_INIT, 0, 50),
        span(Phase.TRAIN_LOOP, 50, 250),
        *steps(50, 250, first=0),
    ]
    soon, late = folded(events, as_of_s=250 + 900), folded(events, as_of_s=_YEAR_S)

    assert soon.segments == late.segments
    assert late.state is JobState.INTERRUPTED
    assert late.attempts[0].outcome is Outcome.LOST
    assert late.failures == 1
    assert late.e2e_us == 250 * SECOND
    assert ett_ratio(late) == 200 / 250
