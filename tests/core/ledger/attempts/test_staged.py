"""Stages: summed inside their attempt, what lies inside another counted once as its own."""

from itertools import permutations

import pytest

from ett_service.core.events import Event, PhaseEnded, PhaseStarted, SpanOver
from ett_service.core.ledger.attempts.spans import self_times
from ett_service.core.ledger.fold import JobFold, fold
from ett_service.core.ledger.results import StageSum
from ett_service.core.ledger.stages import rank_spans, stage_times
from ett_service.core.words import Outcome, Phase
from tests.core.timeline import SECOND, ended, span, started

COMPILE = Phase.PT2_COMPILE


def stage(name: str, start_s: int, end_s: int, phase: Phase = COMPILE) -> Event:
    return SpanOver(
        id=f"{name}-{start_s}",
        at=end_s * SECOND,
        start=start_s * SECOND,
        phase=phase,
        stage=name,
    )


RUN = (
    started(0, gpus=8),
    span(COMPILE, 10, 100),
    stage("inductor", 20, 80),
    stage("async_compile_wait", 30, 50),
    ended(200, Outcome.COMPLETED),
)


def sums(*events: Event) -> tuple[StageSum, ...]:
    (attempt,) = fold(events, {}, 10**12).attempts
    return attempt.stages


def test_a_stage_inside_another_takes_its_time_from_it() -> None:
    assert sums(*RUN) == (
        StageSum(COMPILE, "async_compile_wait", 1, 20 * SECOND, 20 * SECOND),
        StageSum(COMPILE, "inductor", 1, 60 * SECOND, 40 * SECOND),
    )


def test_a_stage_that_was_left_open_ends_with_its_phase() -> None:
    begun = PhaseStarted(id="open", at=90 * SECOND, phase=COMPILE, stage="autotune")

    assert StageSum(COMPILE, "autotune", 1, 10 * SECOND, 10 * SECOND) in sums(*RUN, begun)


def test_an_attempts_end_cuts_a_stage() -> None:
    late = stage("teardown", 190, 260, Phase.SHUTDOWN)

    assert sums(*RUN, late)[-1].inclusive_us == 10 * SECOND


def test_stages_sum_as_on_the_page_of_stages() -> None:
    ledger = fold(RUN, {}, 10**12)
    times = stage_times(rank_spans(RUN, {}, ledger), ledger)

    assert [time.inclusive_us for time in times if time.stage] == [
        total.inclusive_us for total in sums(*RUN)
    ]


def test_stages_that_come_one_by_one_are_summed_like_all_at_once() -> None:
    edges = [
        PhaseStarted(id="b", at=120 * SECOND, phase=COMPILE, stage="dynamo"),
        PhaseEnded(id="e", at=150 * SECOND, phase=COMPILE, stage="dynamo"),
    ]
    job = JobFold()
    for event in (*RUN, *edges):
        assert job.add([event], {})
        job.ledger(10**9)

    assert job.ledger(10**12).attempts[0].stages == sums(*RUN, *edges)


def test_a_stage_without_length_counts_once_its_attempt_has_passed_it() -> None:
    job = JobFold()
    job.add([started(0), stage("dynamo", 10, 10)], {})

    assert job.ledger(10 * SECOND).attempts[0].stages == ()
    assert job.ledger(11 * SECOND).attempts[0].stages == (StageSum(COMPILE, "dynamo", 1, 0, 0),)


def test_of_stages_over_the_same_time_the_last_by_name_owns_it_in_any_order_of_arrival() -> None:
    names = ("inductor", "aot_dispatch", "dynamo")
    for order in permutations(stage(name, 20, 80) for name in names):
        job = JobFold()
        for event in (started(0), *order):
            assert job.add([event], {})

        owned = {stage.stage: stage.exclusive_us for stage in job.ledger(10**9).attempts[0].stages}
        assert owned == {"aot_dispatch": 0, "dynamo": 0, "inductor": 60 * SECOND}


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(0, 10, "a")], {"a": 10}),
        ([(0, 10, "a"), (2, 4, "b")], {"a": 8, "b": 2}),
        ([(0, 10, "a"), (5, 20, "b")], {"a": 5, "b": 15}),
        ([(0, 1, "a"), (5, 6, "a")], {"a": 2}),
    ],
)
def test_self_time_goes_to_what_began_last(
    spans: list[tuple[int, int, str]], expected: dict[str, int]
) -> None:
    by_key: dict[str, int] = {}
    for key, us in self_times(spans):
        by_key[key] = by_key.get(key, 0) + us
    assert by_key == expected
