"""A scenario is read from one line; an unreadable line is refused with what is allowed."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ett_service.core.events import CheckpointRestored, Event, PhaseStarted, SpanOver
from ett_service.core.fleet.owned_time import OwnedTime
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.planning.scenario import (
    CUTTABLE,
    Counterfactual,
    CutCategory,
    CutFailures,
    CutStage,
    Removal,
    Saved,
    Scenario,
    UnreadableScenario,
    parse,
    removals,
)
from ett_service.core.words import Category, Cause, Origin, Outcome, Period, Phase
from tests.builders.drawn.timelines import Timeline, timelines
from tests.core.timeline import SECOND, ended, progress, saved, span, started

_shares = st.integers(1, 10_000).map(lambda part: Fraction(part, 10_000))
_scenarios = st.one_of(
    st.builds(
        CutCategory, st.sampled_from(sorted({*Category} - {Category.EFFECTIVE_TRAINING})), _shares
    ),
    st.builds(CutStage, st.sampled_from(CUTTABLE), st.from_regex(r"\A\w{1,9}\Z"), _shares),
    st.builds(CutFailures, st.sampled_from([None, *Origin]), st.none(), _shares),
)

ALL = CutFailures(None, None, Fraction(1))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("cut pt2_compile by 40%", CutCategory(Category.PT2_COMPILE, Fraction(2, 5))),
        ("cut pt2_compile by 40 %", CutCategory(Category.PT2_COMPILE, Fraction(2, 5))),
        ("Cut  Restart_Wait by 12.5%", CutCategory(Category.RESTART_WAIT, Fraction(1, 8))),
        ("halve evaluation", CutCategory(Category.EVALUATION, Fraction(1, 2))),
        ("halve infra failures", CutFailures(Origin.INFRA, None, Fraction(1, 2))),
        ("cut network failures by 100 percent", CutFailures(None, Cause.NETWORK, Fraction(1))),
        ("cut all failures by 10%", CutFailures(None, None, Fraction(1, 10))),
        (
            "cut stage launcher_init/Mine by 25%",
            CutStage(Phase.LAUNCHER_INIT, "Mine", Fraction(1, 4)),
        ),
        ("publish off the GPUs", CutStage(Phase.SHUTDOWN, "model_publish", Fraction(1))),
    ],
)
def test_each_form_is_read(text: str, meant: Scenario) -> None:
    assert parse(text) == meant


@given(_scenarios)
def test_the_text_of_a_scenario_reads_back_as_the_same(scenario: Scenario) -> None:
    assert parse(scenario.text) == scenario


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cut CATEGORY by N%"),
        ("make it faster", "publish off the GPUs"),
        ("cut pt2_compile", "cut CATEGORY by N%"),
        ("cut pt2_compile by -1%", "cut CATEGORY by N%"),
        ("cut pt2_compile by 0%", "more than 0%"),
        ("cut pt2_compile by 101%", "100% at most"),
        ("cut effective_training by 1%", "one of: scheduling, hardware_setup"),
        ("halve luck", "unattributed"),
        ("cut stage dynamo by 5%", "PHASE/STAGE"),
        ("cut stage train_loop/forward by 5%", "one of: scheduling, hardware_setup"),
        ("halve cosmic failures", "gpu_memory"),
    ],
)
def test_an_unreadable_line_is_refused_with_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(UnreadableScenario, match=message) as refused:
        parse(text)
    assert "cosmic" not in str(refused.value)


def test_a_word_that_names_an_origin_and_a_cause_is_the_origin() -> None:
    assert parse("halve preemption failures") == CutFailures(
        Origin.PREEMPTION, None, Fraction(1, 2)
    )


def _stage(phase: Phase, stage: str, start_s: int, end_s: int, attempt: int = 0) -> Event:
    return SpanOver(
        id=f"{stage}-{start_s}",
        at=end_s * SECOND,
        start=start_s * SECOND,
        attempt=attempt,
        phase=phase,
        stage=stage,
    )


def _troubled() -> list[Event]:
    """A job on 8 accelerators that fails in its loop, then before it, and goes on.

    Attempt 0 trains from 100 s on, a step every 20 s, saves step 10 at 300 s, is silent after
    step 12 at 340 s and fails at 400 s. Attempt 1 fails from 430 to 500 s. Attempt 2 initialises
    from 520 to 600 s, restores step 10, has done step 12 again at 640 s, and completes at 900 s
    after a publish of 50 s.
    """
    loop = PhaseStarted(id="loop", at=100 * SECOND, phase=Phase.TRAIN_LOOP)
    return [
        started(0, gpus=8),
        span(Phase.LAUNCHER_INIT, 0, 100),
        _stage(Phase.LAUNCHER_INIT, "process_group_init", 10, 50),
        loop,
        *(progress(100 + 20 * step, step) for step in range(13)),
        saved(300, 10),
        ended(400, Outcome.FAILED, origin=Origin.INFRA),
        started(430, attempt=1, gpus=8),
        span(Phase.LAUNCHER_INIT, 430, 500, attempt=1),
        ended(500, Outcome.FAILED, attempt=1, origin=Origin.USER),
        started(520, attempt=2, gpus=4),
        span(Phase.LAUNCHER_INIT, 520, 600, attempt=2),
        CheckpointRestored(id="back", at=600 * SECOND, attempt=2, step=10),
        span(Phase.TRAIN_LOOP, 600, 850, attempt=2),
        *(progress(600 + 20 * step, 10 + step, attempt=2) for step in range(12)),
        span(Phase.SHUTDOWN, 850, 900, attempt=2),
        _stage(Phase.SHUTDOWN, "model_publish", 860, 900, attempt=2),
        ended(900, Outcome.COMPLETED, attempt=2),
    ]


def _folded(events: Sequence[Event]) -> JobLedger:
    return fold(events, {}, as_of=2_000 * SECOND)


def _whole(ledger: JobLedger) -> list[OwnedTime]:
    """All of the job's time; each second counts for ten accelerators, held but in waits."""
    return [
        OwnedTime(*segment, segment.number or 0, 10, held=segment.number is not None)
        for segment in ledger.segments
    ]


def _saved_s(ledger: JobLedger, *scenarios: str) -> float:
    counterfactual = Counterfactual(ledger, [parse(text) for text in scenarios])
    return counterfactual.saved(_whole(ledger)).us / SECOND


def test_a_failure_takes_along_its_silent_tail_its_recovery_and_its_repeated_training() -> None:
    ledger = _folded(_troubled())

    first, second = removals(ledger, ALL)

    # The tail from 340 s and two gaps of 20 s on, the recovery to 600 s, steps 11 and 12 again.
    assert first == Removal(0, ((380 * SECOND, 640 * SECOND),))
    # An attempt that failed before its loop, and the wait until the next one took its place.
    assert second == Removal(1, ((430 * SECOND, 520 * SECOND),))


def test_only_the_failures_of_an_origin_are_taken() -> None:
    ledger = _folded(_troubled())

    assert _saved_s(ledger, "cut infra failures by 100%") == 260
    assert _saved_s(ledger, "cut user failures by 100%") == 90
    assert _saved_s(ledger, "cut preemption failures by 100%") == 0


def test_what_two_failures_take_goes_once() -> None:
    assert _saved_s(_folded(_troubled()), "cut all failures by 100%") == 260


def test_half_of_the_failures_is_an_even_chance_for_each() -> None:
    # 170 s are there unless the first is gone; the other 90 s unless any of the two is.
    assert _saved_s(_folded(_troubled()), "halve all failures") == 170 / 2 + 90 * 3 / 4


def test_the_last_attempt_has_no_next_that_could_take_its_place() -> None:
    ledger = _folded(_troubled()[:22])

    assert ledger.attempts[-1].outcome is Outcome.FAILED
    [_, last] = removals(ledger, ALL)
    assert last == Removal(1, ())


def test_a_failure_that_no_loop_followed_takes_all_of_its_open_recovery() -> None:
    ledger = _folded(_troubled()[:22])

    assert [recovery.resumed for recovery in ledger.recoveries] == [None]
    assert removals(ledger, ALL)[0].intervals == ((380 * SECOND, 500 * SECOND),)


def test_a_category_is_cut_where_it_lies() -> None:
    ledger = _folded(_troubled())

    # 100, 70 and 80 s of it.
    assert _saved_s(ledger, "cut launcher_init by 40%") == 100


def test_a_stage_is_cut_by_its_own_time_at_most_by_that_of_its_phase() -> None:
    ledger = _folded(_troubled())
    assert _saved_s(ledger, "cut stage launcher_init/process_group_init by 50%") == 20
    assert _saved_s(ledger, "publish off the GPUs") == 40

    beside = _folded([*_troubled(), span(Phase.PT2_COMPILE, 10, 90)])
    # A compile owns most of that initialisation now: 20 s of it are left to cut.
    assert _saved_s(beside, "cut stage launcher_init/process_group_init by 100%") == 20


def test_scenarios_that_come_true_together_do_not_add_up() -> None:
    ledger = _folded(_troubled())
    first, other = "cut all failures by 100%", "cut launcher_init by 40%"

    together = _saved_s(ledger, first, other)

    # Of 250 s of initialisation 150 go with the failures; 40 % of the rest are left to cut.
    assert together == 260 + 40
    assert _saved_s(ledger, first) + _saved_s(ledger, other) == 260 + 100


def test_time_is_weighted_by_accelerators_and_counts_as_theirs_while_they_were_held() -> None:
    ledger = _folded(_troubled())

    gone = Counterfactual(ledger, [ALL]).saved(_whole(ledger))

    waits = (30 + 20) * SECOND
    assert gone == Saved(260 * SECOND, 2_600 * SECOND, 2_600 * SECOND - 10 * waits)


def test_only_the_requested_part_of_a_period_counts() -> None:
    ledger = _folded(_troubled())
    window = [
        OwnedTime(390 * SECOND, 450 * SECOND, Category.STALLED, Period.TRAINING, 0, 0, 1, held=True)
    ]

    assert Counterfactual(ledger, [ALL]).saved(window).us == 60 * SECOND
    halved = Counterfactual(ledger, [parse("halve all failures")]).saved(window)
    assert halved.us == (40 / 2 + 20 * 3 / 4) * SECOND


@settings(max_examples=40, deadline=None)
@given(timeline=timelines, scenario=st.sampled_from(["halve all failures", "halve stalled"]))
def test_no_scenario_takes_effective_training_or_more_than_there_is(
    timeline: Timeline, scenario: str
) -> None:
    ledger = fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)
    effective_us = sum(
        segment.end_at - segment.start_at
        for segment in ledger.segments
        if segment.category is Category.EFFECTIVE_TRAINING
    )
    scenarios: list[Scenario] = [parse(scenario), parse("cut all failures by 100%")]

    gone = Counterfactual(ledger, scenarios).saved(_whole(ledger))
    less = Counterfactual(ledger, scenarios[:1]).saved(_whole(ledger))

    assert 0 <= less.us <= gone.us <= ledger.e2e_us - effective_us
