"""What a job adds to the fleet: all of its ledger, in the right hours, also when folded forward."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ett_service.core.dimensions import Cohort
from ett_service.core.events import CheckpointSaved, Event, Exclusion, JobFacts, Progress
from ett_service.core.fleet.contribution import Cell, Cells, contribution, first_difference, hour_of
from ett_service.core.fleet.measures import MEASURES, PLAIN, QUEUES, WEIGHTED
from ett_service.core.fleet.owned_time import MOST_ACCELERATORS, MOST_WEIGHTED_US
from ett_service.core.fleet.totals import Totals
from ett_service.core.intervals import HOUR_US
from ett_service.core.ledger.fold import JobFold, fold
from ett_service.core.ledger.results import JobLedger, Work, WorkDone
from ett_service.core.words import Category, Outcome, Owner, Period, Phase, WaitPart
from tests.builders.drawn.timelines import (
    Timeline,
    in_batches,
    lifelike_timelines,
    rough_heaps,
    rough_timelines,
)
from tests.core.timeline import SECOND, ended, span, started

_lives = st.one_of(rough_heaps, rough_timelines, lifelike_timelines)
_chances = st.randoms(use_true_random=False)
_exclusions = st.lists(
    st.builds(
        Exclusion,
        st.none() | st.integers(0, 40).map(lambda n: 1_740_816_000 * SECOND + n * 333 * SECOND),
        st.none() | st.integers(0, 40).map(lambda n: 1_740_816_000 * SECOND + n * 777 * SECOND),
    ),
    max_size=2,
)

HOUR_S = 3600


def sums(cells: Cells) -> Totals:
    """Add all cells up."""
    total = Totals.ZERO
    for cell in cells.values():
        total = total + Totals(cell.sums)
    return total


def within_reach(ledger: JobLedger) -> bool:
    most = max([attempt.gpus or 0 for attempt in ledger.attempts], default=0)
    return most <= MOST_ACCELERATORS and most * ledger.e2e_us <= MOST_WEIGHTED_US


@given(_lives, _exclusions)
def test_the_cells_of_a_job_add_up_to_its_ledger(
    timeline: Timeline, exclusions: list[Exclusion]
) -> None:
    ledger = fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)
    total = sums(contribution(ledger, exclusions))

    plain, weighted, gpu = Counter[str](), Counter[str](), Counter[str]()
    for share in ledger.shares:
        for name in (PLAIN.categories[share.category], PLAIN.periods[share.period]):
            plain[name] += share.us
        weighted[WEIGHTED.categories[share.category]] += share.weighted_us or 0
        gpu[share.category] += share.gpu_us or 0
    assert {name: total[name] for name in plain} == plain
    if within_reach(ledger):
        assert {name: total[name] for name in weighted} == weighted
        assert {name: total.category_gpu_us(Category(name)) for name in gpu} == gpu
    assert total.e2e_us == ledger.e2e_us
    assert total["failures"] == ledger.failures
    assert total["infra_failures"] == ledger.infra_failures
    assert total["unsaved_us"] == ledger.unsaved_us
    assert total["queue_wait_us"] == ledger.queue_wait_us
    assert total["attempts"] == len(ledger.attempts)
    assert total["jobs_started"] == total["jobs_ended"] == (ledger.started_at is not None)
    assert set(total.sums) <= set(MEASURES)


@given(_lives, _chances)
def test_cells_before_the_first_difference_stay_as_they_were(
    timeline: Timeline, chance: Random
) -> None:
    job = JobFold(timeline.limits)
    before: JobLedger | None = None
    cells: Cells = {}
    for batch in in_batches(sorted(timeline.events, key=lambda event: event.at), chance):
        if not job.add(batch, timeline.offsets):
            return
        as_of = max((event.at for event in batch), default=timeline.as_of)
        ledger = job.ledger(as_of)
        whole = contribution(ledger)
        since = None
        if before is not None:
            since = first_difference(before, ledger, job.changed_from)
        if since is None:
            cells = whole
        else:
            unchanged = {key: cell for key, cell in cells.items() if key[0] < hour_of(since)}
            cells = unchanged | contribution(ledger, since=since)
        assert cells == whole
        before = ledger


@given(_lives, _exclusions)
def test_the_waits_of_a_job_add_up_by_owner(
    timeline: Timeline, exclusions: list[Exclusion]
) -> None:
    ledger = fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)
    total = sums(contribution(ledger, exclusions))
    expected: Counter[str] = Counter()
    for share in ledger.wait_shares if not total["jobs_left_out"] else ():
        if share.part is WaitPart.QUEUE:
            expected[QUEUES[share.owner]] += share.us
            continue
        expected[PLAIN.owners[share.owner]] += share.us
        if within_reach(ledger):
            expected[WEIGHTED.owners[share.owner]] += share.weighted_us or 0
    names = (*PLAIN.owners.values(), *WEIGHTED.owners.values(), *QUEUES.values())
    assert {name: total[name] for name in names} == {name: expected[name] for name in names}
    waits = (Period.SCHEDULING, Period.STARTING, Period.RECOVERING)
    assert sum(map(total.wait_us, Owner)) == sum(map(total.period_us, waits))


def test_a_stage_that_comes_late_changes_the_hours_in_which_it_lay() -> None:
    job = JobFold()
    job.add(
        [
            started(0, gpus=8),
            span(Phase.HARDWARE_SETUP, 0, 2 * HOUR_S),
            span(Phase.TRAIN_LOOP, 2 * HOUR_S, 9 * HOUR_S),
        ],
        {},
    )
    before = job.ledger(9 * HOUR_S * SECOND)
    job.add([span(Phase.HARDWARE_SETUP, 600, 1200, stage="image_pull")], {})
    after = job.ledger(9 * HOUR_S * SECOND)

    since = first_difference(before, after, job.changed_from)

    assert since is not None
    assert hour_of(since) == 0
    cells = contribution(after, since=since)
    assert sums(cells).wait_us(Owner.IMAGE) == 600 * SECOND
    assert sums(cells).wait_weighted_us(Owner.IMAGE) == 8 * 600 * SECOND
    assert {hour for (hour, _), cell in cells.items() if cell.sums.get("image_wait_us")} == {0}


@given(lifelike_timelines)
def test_time_lies_in_the_hour_in_which_it_passed(timeline: Timeline) -> None:
    ledger = fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)
    passed: Counter[int] = Counter()
    for segment in ledger.segments:
        at = segment.start_at
        while at < segment.end_at:
            stop = min(segment.end_at, hour_of(at) + HOUR_US)
            passed[hour_of(at)] += stop - at
            at = stop
    by_hour: Counter[int] = Counter()
    for (hour, _), cell in contribution(ledger).items():
        by_hour[hour] += Totals(cell.sums).e2e_us
    assert by_hour == passed


def cells_of(*events: Event, exclusions: tuple[Exclusion, ...] = ()) -> Cells:
    ledger = fold(events, {}, 10 * HOUR_US)
    return contribution(ledger, exclusions)


RUN = (
    started(0, gpus=8),
    span(Phase.LAUNCHER_INIT, 0, 600),
    span(Phase.TRAIN_LOOP, 600, 2 * HOUR_S + 600),
    span(Phase.CHECKPOINT_BLOCKING, HOUR_S, HOUR_S + 30),
    ended(2 * HOUR_S + 600, Outcome.COMPLETED),
)


def in_hour(cells: Cells, hour: int) -> Cell:
    (hour_cell,) = [cell for (at, _), cell in cells.items() if at == hour * HOUR_US]
    return hour_cell


def test_an_hour_gets_its_part_of_a_loop_with_its_accelerators() -> None:
    cells = cells_of(*RUN)

    effective = [in_hour(cells, hour).sums["effective_training_us"] for hour in range(3)]
    assert effective == [3000 * SECOND, 3570 * SECOND, 600 * SECOND]
    assert in_hour(cells, 2).sums["effective_training_weighted_us"] == 8 * 600 * SECOND


def test_a_job_counts_in_every_hour_once_a_day_and_once_in_all() -> None:
    cells = cells_of(*RUN)

    counts = [
        [in_hour(cells, hour).sums.get(name, 0) for hour in range(3)]
        for name in ("jobs_hour", "jobs_day", "jobs_started", "jobs_ended")
    ]
    assert counts == [[1, 1, 1], [1, 0, 0], [1, 0, 0], [0, 0, 1]]


def test_durations_are_counted_where_they_were_over() -> None:
    cells = cells_of(*RUN)

    assert {name for name, _ in in_hour(cells, 0).tallies} == {
        "phase:launcher_init",
        "queue_wait",
        "time_to_start",
    }
    ((blocking, counted),) = in_hour(cells, 1).tallies.items()
    assert blocking[0] == "checkpoint_blocking"
    assert counted == (1, 30 * SECOND)


def test_an_attempts_own_size_and_version_win_for_its_time() -> None:
    facts = JobFacts(id="facts", at=0, team="nlp", gpus=64, code_version="a")
    cells = cells_of(facts, *RUN)

    cohorts = {cohort for _, cohort in cells}
    assert cohorts == {Cohort(team="nlp", size="8-15", code_version="a")}


def test_an_exclusion_cuts_an_hour_in_two() -> None:
    out = Exclusion(1200 * SECOND, 1800 * SECOND)
    cells = cells_of(*RUN, exclusions=(out,))

    first = {cohort.excluded: cell for (hour, cohort), cell in cells.items() if hour == 0}
    assert first[True].sums["effective_training_us"] == 600 * SECOND
    assert first[False].sums["effective_training_us"] == 2400 * SECOND
    assert first[False].sums["jobs_hour"] == 1


def test_a_job_that_is_excluded_wholly_leaves_nothing_behind() -> None:
    cells = cells_of(*RUN, exclusions=(Exclusion(),))

    assert all(cohort.excluded for _, cohort in cells)


def test_unknown_accelerators_weigh_nothing_and_are_counted() -> None:
    cells = cells_of(started(0), *RUN[1:])

    total = sums(cells)
    assert (total.weighted_us, total["unweighted_us"]) == (0, total.e2e_us)
    assert total["jobs_ended_unweighted"] == 1


def test_a_timestamp_of_zero_beside_real_ones_adds_no_row_an_hour() -> None:
    late = 50 * 365 * 24 * HOUR_S
    cells = cells_of(*RUN, started(late, attempt=1, gpus=8))

    assert [cell.sums for cell in cells.values()] == [{"jobs_left_out": 1, "cells": 1}]


def test_tokens_lie_in_the_hour_in_which_they_raised_the_jobs_total() -> None:
    reports = [(1000, 10), (3000, 30), (4000, 25), (7000, 70)]
    progress = [
        Progress(id=f"p{at}", at=at * SECOND, step=at, tokens=tokens, flops=tokens * 1e15)
        for at, tokens in reports
    ]
    ledger = fold([*RUN, *progress], {}, 10 * HOUR_US)

    assert ledger.produced == Work(tokens=70, teraflops=70_000)
    assert ledger.work == (
        WorkDone(0, 0, Work(tokens=30, teraflops=30_000)),
        WorkDone(HOUR_US, 0, Work(tokens=40, teraflops=40_000)),
    )
    total = sums(contribution(ledger))
    assert total["tokens_us"] == total.effective_us
    assert total["tokens_gpu_us"] == total.gpu_us


def test_what_goes_with_accelerators_leaves_out_those_that_are_unknown() -> None:
    report = Progress(id="p", at=1000 * SECOND, step=1, tokens=10, samples=20, flops=1e15)
    measured, unknown = (
        sums(contribution(fold([begin, *RUN[1:], report], {}, 10 * HOUR_US)))
        for begin in (RUN[0], started(0))
    )
    measures = ("tokens", "samples", "tokens_known", "samples_known", "teraflops")

    assert [measured[name] for name in measures] == [10, 20, 10, 20, 1000]
    assert [unknown[name] for name in measures] == [10, 20, 0, 0, 0]


def test_operations_follow_from_parameters_and_tokens_where_none_are_reported() -> None:
    facts = JobFacts(id="facts", at=0, parameters=10**9)
    report = Progress(id="p", at=1000 * SECOND, step=1, tokens=10**6)

    assert fold([facts, *RUN, report], {}, 0).produced.teraflops == 6 * 10**3


def test_a_checkpoint_has_its_size_and_attempt() -> None:
    saved = CheckpointSaved(
        id="s", at=4000 * SECOND, step=7, bytes=12, duration_seconds=1.5, attempt=0
    )
    (checkpoint,) = fold([*RUN, saved], {}, 0).checkpoints

    assert (checkpoint.number, checkpoint.step, checkpoint.bytes, checkpoint.duration_us) == (
        0,
        7,
        12,
        1_500_000,
    )


def test_time_before_1970_counts_like_any_other() -> None:
    early = span(Phase.TRAIN_LOOP, -7200, -1800)

    assert sums(cells_of(early, ended(-1800, Outcome.COMPLETED))).e2e_us == 5400 * SECOND


def test_a_running_phase_is_no_duration_yet() -> None:
    events = (started(0, gpus=8), span(Phase.LAUNCHER_INIT, 0, 600))
    running = contribution(fold(events, {}, 600 * SECOND))

    assert "phase:launcher_init" not in {name for name, _ in in_hour(running, 0).tallies}


def test_periods_and_categories_of_a_cell_sum_alike() -> None:
    for cell in cells_of(*RUN).values():
        totals = Totals(cell.sums)
        assert sum(map(totals.period_us, Period)) == totals.e2e_us


def test_a_seeded_job_folded_forward_in_many_steps_keeps_its_cells() -> None:
    chance = Random(7)
    progress = [
        Progress(id=f"p{at}", at=at * SECOND, step=at, tokens=at)
        for at in sorted(chance.sample(range(700, 7000), 40))
    ]
    job = JobFold()
    job.add(RUN[:3], {})
    before = job.ledger(600 * SECOND)
    cells = contribution(before)
    forward = 0
    for event in progress:
        assert job.add([event], {})
        ledger = job.ledger(event.at)
        since = first_difference(before, ledger, job.changed_from)
        forward += since is not None
        if since is None:
            cells = contribution(ledger)
        else:
            cells = {key: cell for key, cell in cells.items() if key[0] < hour_of(since)}
            cells |= contribution(ledger, since=since)
        assert cells == contribution(ledger)
        before = ledger
    assert forward > len(progress) // 2
