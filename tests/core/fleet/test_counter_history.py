"""What a job moves the counters by, step by step."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ett_service.core.events import Exclusion, PhaseStarted
from ett_service.core.fleet.contribution import contribution
from ett_service.core.fleet.counter_history import Steps, counter_steps
from ett_service.core.fleet.counters import job_counters
from ett_service.core.fleet.totals import Totals
from ett_service.core.intervals import HOUR_US
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Outcome, Phase
from tests.builders.drawn.timelines import (
    BIRTH,
    SECOND,
    Timeline,
    lifelike_timelines,
    rough_heaps,
    rough_timelines,
    timelines,
)
from tests.core.laws import of
from tests.core.timeline import ended, progress, span, started

_instants = st.none() | st.integers(0, 40).map(lambda n: BIRTH + n * 333 * SECOND)
_exclusions = st.lists(st.builds(Exclusion, _instants, _instants), max_size=2)
_hours = st.one_of(rough_heaps, rough_timelines, lifelike_timelines)

HOURS = Steps(HOUR_US)


def total(ledger: JobLedger, steps: Steps, *exclusions: Exclusion) -> dict[str, int]:
    """Sum up all steps."""
    steps_by_key = counter_steps(ledger, steps, exclusions)
    sums = {key: sum(by_step.values()) for key, by_step in steps_by_key.items()}
    return {key: amount for key, amount in sums.items() if amount}


@given(timelines, st.sampled_from([7, 60 * SECOND, HOUR_US]))
def test_all_steps_together_are_what_the_job_counts(timeline: Timeline, step_us: int) -> None:
    ledger = of(fold, timeline)
    if ledger.e2e_us < 10_000 * step_us:
        assert total(ledger, Steps(step_us)) == job_counters(ledger).sums


@given(_hours, _exclusions)
def test_what_is_excluded_moves_no_counter(timeline: Timeline, exclusions: list[Exclusion]) -> None:
    ledger = of(fold, timeline)
    fleet: Counter[int] = Counter()
    for (hour_at, cohort), cell in contribution(ledger, exclusions).items():
        if not cohort.excluded:
            fleet[hour_at + HOUR_US] += Totals(cell.sums).e2e_us
    counted: Counter[int] = Counter()
    for key, by_step in counter_steps(ledger, HOURS, exclusions).items():
        if key.startswith("phase_seconds:"):
            counted.update(by_step)
    assert +counted == +fleet


@settings(max_examples=100)
@given(_hours, st.integers(0, 240))
def test_what_comes_after_the_last_step_is_left_out(timeline: Timeline, halves: int) -> None:
    ledger = of(fold, timeline)
    last_at = BIRTH + halves * 30 * SECOND
    hours = counter_steps(ledger, Steps(HOUR_US, last_at))
    for key, by_step in counter_steps(ledger, Steps(30 * SECOND)).items():
        until = sum(us for at, us in by_step.items() if at <= last_at)
        assert sum(hours.get(key, {}).values()) == until
    assert all(at <= last_at for by_step in hours.values() for at in by_step)


def test_the_silent_tail_is_the_last_of_an_attempts_stalled_time() -> None:
    ledger = fold(
        [
            started(0, gpus=4),
            *(progress(at, step=at) for at in (600, 1200, 1800, 2400)),
            span(Phase.STALLED, 1500, 1700),
            # Silent from 3600 on: the last progress and twice the gap.
            ended(9000, Outcome.FAILED),
            PhaseStarted(id="loop", at=0, phase=Phase.TRAIN_LOOP),
        ],
        {},
        9000 * SECOND,
    )
    by_key = counter_steps(ledger, HOURS)

    assert by_key["phase_seconds:stalled"] == {HOUR_US: 200 * SECOND}
    silent = {2 * HOUR_US: 3600 * SECOND, 3 * HOUR_US: 1800 * SECOND}
    assert by_key["deducted_seconds:train_loop/stalled"] == silent
    weighted = {at: 4 * us for at, us in silent.items()}
    assert by_key["deducted_weighted_seconds:train_loop/stalled"] == weighted
    assert by_key["failures:unknown/unknown"] == {3 * HOUR_US: 1}
