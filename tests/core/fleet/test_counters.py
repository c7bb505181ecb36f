"""The counters of a job follow from its ledger."""

from hypothesis import given

from ett_service.core.events import AttemptStarted, Event, PhaseEnded, PhaseStarted, SpanOver
from ett_service.core.fleet.counters import (
    DEDUCTIONS,
    GAPS,
    PHASES,
    JobCounters,
    job_counters,
    open_work,
)
from ett_service.core.fleet.owned_time import is_weighted
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome, Phase
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.drawn.timelines import Timeline, timelines
from tests.builders.record import event, progress


def category_us(counters: JobCounters, category: Category, weight: str = "") -> int:
    """Put a category together from gross time and deductions, as readers of /metrics do."""
    phase = "train_loop" if category is Category.EFFECTIVE_TRAINING else category.value
    gross = sum(
        us
        for key, us in counters.sums.items()
        if key == f"phase{weight}_seconds:{phase}"
        or key.startswith(f"phase{weight}_seconds:{phase}/")
    )
    deducted = {
        pair: counters.sums.get(f"deducted{weight}_seconds:{'/'.join(pair)}", 0)
        for pair in DEDUCTIONS
    }
    out = sum(us for (source, _), us in deducted.items() if source == phase)
    into = sum(us for (_, target), us in deducted.items() if target == category)
    return gross - out + into


def without_running_tails(ledger: JobLedger) -> bool:
    return not any(
        attempt.silent_tail_us for attempt in ledger.attempts if attempt.outcome is Outcome.RUNNING
    )


@given(timelines)
def test_gross_time_and_deductions_make_up_each_category(timeline: Timeline) -> None:
    ledger = fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)
    counters = job_counters(ledger)
    if not counters.sums:
        return
    assert sum(counters.sums.get(f"phase_seconds:{phase}", 0) for phase in PHASES) == ledger.e2e_us
    if not without_running_tails(ledger):
        return
    for category in Category:
        of_category = [share for share in ledger.shares if share.category is category]
        assert category_us(counters, category) == sum(share.us for share in of_category)
        if is_weighted(ledger):
            weighted_us = sum(share.weighted_us or 0 for share in of_category)
            assert category_us(counters, category, "_weighted") == weighted_us


def hanging(as_of: int) -> JobLedger:
    facts: list[Event] = [
        event(AttemptStarted, gpus=8),
        event(SpanOver, NOON + MINUTE, phase=Phase.LAUNCHER_INIT, start=NOON),
        event(PhaseStarted, NOON + MINUTE, phase=Phase.TRAIN_LOOP),
        *(progress(step, NOON + (step + 1) * MINUTE) for step in range(4)),
    ]
    return fold(facts, {}, as_of)


def test_a_running_silent_tail_is_not_deducted_but_open() -> None:
    ledger = hanging(NOON + 12 * MINUTE)
    assert ledger.attempts[0].silent_tail_us == 6 * MINUTE

    assert job_counters(ledger).sums["phase_seconds:train_loop"] == 11 * MINUTE
    assert not any(key.startswith("deducted") for key in job_counters(ledger).sums)
    assert open_work(ledger).open_since == {"stalled": NOON + 6 * MINUTE}


def test_an_attempt_that_was_lost_counts_up_to_its_last_sign() -> None:
    sums = job_counters(hanging(NOON + HOUR)).sums
    assert sums["phase_seconds:train_loop"] == 3 * MINUTE


def test_what_is_open_began_where_its_stretch_did() -> None:
    facts = [event(AttemptStarted), event(PhaseStarted, NOON + MINUTE, phase=Phase.LAUNCHER_INIT)]
    work = open_work(fold(facts, {}, NOON + 5 * MINUTE))
    assert work.open_since == {"launcher_init": NOON + MINUTE}
    assert work.heard == (NOON + MINUTE,)


def test_a_job_that_is_left_out_of_the_fleet_counts_nothing() -> None:
    facts = [event(AttemptStarted, 0), event(AttemptStarted, NOON, attempt=1)]
    assert job_counters(fold(facts, {}, NOON)).sums == {}


def test_broken_hooks_count_attempts_and_other_gaps_what_was_not_reported() -> None:
    hooks = [{"compile": "missing", "data": "missing"}, {"data": "error"}, {"data": "ok"}]
    facts: list[Event] = [
        event(AttemptStarted, NOON + n * HOUR, attempt=n, attributes={"hooks": states})
        for n, states in enumerate(hooks)
    ]
    facts += [progress(n % 2, NOON + 2 * HOUR + n, attempt=2) for n in range(400)]
    facts += [event(PhaseEnded, NOON + 3 * HOUR, attempt=2, phase=Phase.EVALUATION)]

    sums = job_counters(fold(facts, {}, NOON + 4 * HOUR)).sums
    assert {kind: sums.get(f"reporting_gaps:{kind}", 0) for kind in GAPS} == {
        **dict.fromkeys(GAPS, 0),
        "missing_hook": 1,
        "failed_hook": 1,
        "steps_went_back": 199,  # more than a ledger lists one by one
        "end_without_begin": 1,
    }


def test_a_compile_inside_the_loop_is_one_duration_however_long_it_goes_on() -> None:
    facts: list[Event] = [
        event(PhaseStarted, phase=Phase.TRAIN_LOOP),
        event(PhaseStarted, NOON + MINUTE, phase=Phase.PT2_COMPILE),
    ]
    for minute in range(2, 9):
        sums = job_counters(fold(facts, {}, NOON + minute * MINUTE)).sums
        assert not any(key.startswith("phase_duration_seconds") for key in sums)

    facts.append(event(PhaseEnded, NOON + 9 * MINUTE, phase=Phase.PT2_COMPILE))
    sums = job_counters(fold(facts, {}, NOON + 10 * MINUTE)).sums
    assert sums["phase_duration_seconds:pt2_compile#us"] == 8 * MINUTE
