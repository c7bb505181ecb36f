"""A job's time in a window: all of it, weighted as the fleet's sums weigh it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ett_service.core.dimensions import Cohort
from ett_service.core.events import Exclusion
from ett_service.core.fleet.contribution import contribution
from ett_service.core.fleet.owned_time import time_in_window, with_waits
from ett_service.core.fleet.totals import Totals
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Outcome, Period, Phase
from tests.builders.drawn.timelines import Timeline, timelines
from tests.core.timeline import SECOND, ended, span, started

Sums = dict[Cohort, Counter[str]]

EVER = (-(2**62), 2**62)


def _folded(timeline: Timeline) -> JobLedger:
    return fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)


def _summed(ledger: JobLedger, exclusions: Sequence[Exclusion]) -> Sums:
    sums: Sums = {}
    for cohort, owned in time_in_window(ledger, EVER, exclusions):
        us = owned.end_at - owned.start_at
        cohort_sums = sums.setdefault(cohort, Counter())
        cohort_sums[f"{owned.category}_us"] += us
        cohort_sums[f"{owned.category}_weighted_us"] += us * owned.gpus
        cohort_sums["gpu_us"] += us * owned.gpus * owned.held
    return {cohort: +cohort_sums for cohort, cohort_sums in sums.items()}


def _contributed(ledger: JobLedger, exclusions: Sequence[Exclusion]) -> Sums:
    names = [f"{category}{suffix}" for category in Category for suffix in ("_us", "_weighted_us")]
    sums: Sums = {}
    for (_, cohort), cell in contribution(ledger, exclusions).items():
        cohort_sums = sums.setdefault(cohort, Counter())
        cohort_sums.update({name: cell.sums.get(name, 0) for name in names})
        cohort_sums["gpu_us"] += Totals(cell.sums).gpu_us
    return {cohort: +cohort_sums for cohort, cohort_sums in sums.items() if +cohort_sums}


@settings(max_examples=40, deadline=None)
@given(timeline=timelines, edges=st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)))
def test_a_jobs_time_is_what_it_adds_to_the_fleet(
    timeline: Timeline, edges: tuple[int, int]
) -> None:
    ledger = _folded(timeline)
    assume((ledger.started_at or 0) >= 0)  # the fleet begins in 1970
    start = (ledger.started_at or 0) + min(edges) * SECOND
    exclusions = [Exclusion(start, start + max(edges) * SECOND)]

    summed, contributed = _summed(ledger, exclusions), _contributed(ledger, exclusions)

    assert summed == contributed


def _queues(timeline: Timeline) -> bool:
    return any(getattr(event, "phase", None) is Phase.QUEUED for event in timeline.events)


@settings(max_examples=40, deadline=None)
@given(timeline=timelines)
def test_waits_from_stored_rows_are_those_of_the_fold(timeline: Timeline) -> None:
    ledger = _folded(timeline)

    again = with_waits(replace(ledger, waits=())).waits

    if _queues(timeline):  # that is not stored, so more of a wait may count as held
        again = tuple(wait._replace(held=False) for wait in again)
    else:
        assert again == ledger.waits
    assert sum(wait.end_at - wait.start_at for wait in again) == sum(
        wait.end_at - wait.start_at for wait in ledger.waits
    )


def test_a_window_cuts_what_lies_across_its_edges_and_waiting_holds_nothing() -> None:
    ledger = fold(
        [
            started(0, gpus=8),
            span(Phase.LAUNCHER_INIT, 0, 100),
            ended(100, Outcome.FAILED),
            started(160, attempt=1, gpus=4),
            span(Phase.SCHEDULING, 160, 180, attempt=1),
            span(Phase.LAUNCHER_INIT, 180, 300, attempt=1),
            ended(300, Outcome.COMPLETED, attempt=1),
        ],
        {},
        as_of=1_000 * SECOND,
    )

    owned = [part for _, part in time_in_window(ledger, (50 * SECOND, 200 * SECOND))]

    assert sorted(owned) == [
        (50 * SECOND, 100 * SECOND, Category.LAUNCHER_INIT, Period.STARTING, 0, 0, 8, True),
        (100 * SECOND, 160 * SECOND, Category.RESTART_WAIT, Period.STARTING, None, 0, 8, False),
        (160 * SECOND, 180 * SECOND, Category.SCHEDULING, Period.STARTING, 1, 1, 4, False),
        (180 * SECOND, 200 * SECOND, Category.LAUNCHER_INIT, Period.STARTING, 1, 1, 4, True),
    ]
