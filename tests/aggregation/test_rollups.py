"""A job's time lies in the rollups of the right cohort and hour, on closed days, too."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from sqlalchemy import select

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Event,
    JobFacts,
    PhaseStarted,
    SpanOver,
)
from ett_service.core.intervals import DAY_US, HOUR_US
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Cause, Origin, Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet import cohort_cap
from ett_service.storage.fleet.cohort_cap import ProjectDay
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from ett_service.storage.schema import cohort_day
from ett_service.worker.ledgers import Worker
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT, SECOND, Clock
from tests.builders.ledgers import deliver, marked, recomputed, refreshed
from tests.builders.record import event, progress
from tests.builders.rollups import Rollups, check_rollups, stored_rollups
from tests.builders.servers.waiting import wait_for
from tests.builders.servers.worker import running

DAYS = 20
DAY_OF_NOON = NOON - NOON % DAY_US


def facts(at: int = NOON, **members: object) -> Event:
    return event(JobFacts, at, model="llm", cluster="a", hardware="h100", **members)


def long_job(days: int = DAYS) -> list[Event]:
    """Attempts of a day each, with steps and saves; one in five fails, the last is lost."""
    events: list[Event] = [facts(team="nlp", gpus=64)]
    for number in range(days):
        began, named = NOON + number * DAY_US, {"attempt": number}
        events.append(event(AttemptStarted, began, gpus=64, code_version="1", **named))
        events.append(event(PhaseStarted, began + MINUTE, phase=Phase.TRAIN_LOOP, **named))
        for part in range(4):
            at = began + HOUR + part * 5 * HOUR
            step = number * 4 + part
            events.append(progress(step, at, tokens=step * 1_000, **named))
            events.append(
                event(SpanOver, at + MINUTE, phase=Phase.CHECKPOINT_BLOCKING, start=at, **named)
            )
            events.append(event(CheckpointSaved, at + MINUTE, step=step, **named))
        if number < days - 1:
            failed = {"outcome": Outcome.FAILED, "origin": Origin.INFRA, "cause": Cause.NETWORK}
            ended = failed if number % 5 == 0 else {"outcome": Outcome.COMPLETED}
            events.append(event(AttemptEnded, began + 23 * HOUR, **ended, **named))
    return events


def rebuilt(store: Store, key: JobKey, events: list[Event], now_us: int) -> Rollups:
    """Return the rollups of another project that gets everything at once."""
    elsewhere = store.write(lambda conn: create_project(conn, "rebuilt", RECEIVED_AT))
    deliver(store, JobKey(elsewhere, key.job), events)
    refreshed(store, JobKey(elsewhere, key.job), now_us)
    return {
        (grain, key.project_id, start, label): row
        for (grain, project_id, start, label), row in stored_rollups(store).items()
        if project_id == elsewhere
    }


def test_a_change_of_team_moves_every_cell_of_every_day(store: Store, project_id: int) -> None:
    key, now_us = JobKey(project_id, "llm-70b"), NOON + DAYS * DAY_US
    events = long_job()
    deliver(store, key, events)
    kept_fold = refreshed(store, key, now_us)
    before = check_rollups(store)
    moved = [facts(now_us, team="vision", gpus=64)]

    deliver(store, key, moved)
    refreshed(store, key, now_us + SECOND, kept_fold)

    after = check_rollups(store)
    assert {label.team for _, _, _, (label, _) in before} == {"nlp"}
    assert {label.team for _, _, _, (label, _) in after} == {"vision"}
    assert len({start for grain, _, start, _ in after if grain == "daily"}) == DAYS + 1
    assert after == rebuilt(store, key, [*events, *moved], now_us + SECOND)


def test_what_one_more_event_costs_does_not_grow_with_the_job(
    store: Store, project_id: int
) -> None:
    counts = []
    for days in (2, DAYS):
        key = JobKey(project_id, f"of {days} days")
        events = long_job(days)
        last_at = events[-1].at
        deliver(store, key, events)
        kept_fold = refreshed(store, key, last_at + MINUTE)
        before = stored_rollups(store)
        deliver(store, key, [progress(days * 4, last_at + 2 * MINUTE, attempt=days - 1)])
        refreshed(store, key, last_at + 2 * MINUTE, kept_fold)
        after = stored_rollups(store)
        places = before.keys() | after.keys()
        counts.append(sum(before.get(cell) != after.get(cell) for cell in places))
    assert counts == [2, 2]
    check_rollups(store)


def test_buckets_of_time_add_up_to_the_ledger(store: Store, project_id: int) -> None:
    key, now_us = JobKey(project_id, "llm-70b"), NOON + DAYS * DAY_US
    deliver(store, key, long_job())
    refreshed(store, key, now_us)

    rows_checked = check_rollups(store)

    ledger = recomputed(store, key, now_us)
    for grain in ("hourly", "daily"):
        rows = [row for cell, row in rows_checked.items() if cell[0] == grain]
        for category, us in _by_category(ledger).items():
            assert sum(row.get(f"{category}_us", 0) for row in rows) == us
            assert sum(row.get(f"{category}_weighted_us", 0) for row in rows) == 64 * us
        assert sum(row.get("failures", 0) for row in rows) == ledger.failures == 5
        assert sum(row.get("attempts", 0) for row in rows) == DAYS
        assert sum(row.get("failure:infra/network 0 count", 0) for row in rows) == 4


def _by_category(ledger: JobLedger) -> dict[Category, int]:
    by_category: dict[Category, int] = {}
    for share in ledger.shares:
        by_category[share.category] = by_category.get(share.category, 0) + share.us
    return by_category


def test_another_version_of_the_code_is_another_cohort_from_its_attempt_on(
    store: Store, project_id: int
) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(
        store,
        key,
        [
            facts(team="nlp"),
            event(AttemptStarted, gpus=64, code_version="1"),
            event(AttemptEnded, NOON + HOUR, outcome=Outcome.FAILED),
            event(AttemptStarted, NOON + HOUR, attempt=1, gpus=100, code_version="2"),
            event(AttemptEnded, NOON + 2 * HOUR, attempt=1, outcome=Outcome.COMPLETED),
        ],
    )
    refreshed(store, key, NOON + 3 * HOUR)

    hours = {
        start: (label.code_version, label.size)
        for _, _, start, (label, _) in check_rollups(store)
        if start % DAY_US
    }
    assert hours == {NOON: ("1", "64-127"), NOON + HOUR_US: ("2", "64-127")}


def move_cohorts(store: Store, day: ProjectDay, stop: threading.Event) -> None:
    """Put cohorts into ``other`` and take them out again, whoever is adding to them."""
    own = False
    while not stop.wait(0.005):
        with store.reading() as conn:
            ids = list(conn.scalars(select(cohort_day.c.cohort_id).distinct()))
        store.write(partial(cohort_cap.move, day=day, cohort_ids=ids[::2] if own else ids, own=own))
        own = not own


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_several_workers_and_moves_leave_the_rollups_as_the_events_say(
    store: Store, project_id: int
) -> None:
    keys = [JobKey(project_id, f"job-{number}") for number in range(6)]
    clock, stop = Clock(NOON + HOUR), threading.Event()

    def send(steps: Iterator[int]) -> None:
        for step in steps:
            for index, key in enumerate(keys):
                batch = [
                    progress(step, NOON + step * MINUTE),
                    facts(NOON + step, team=str((step + index) % 4), gpus=index),
                ]
                deliver(store, key, batch)

    threads = [
        threading.Thread(target=send, args=(itertools.islice(itertools.count(n, 2), 12),))
        for n in range(2)
    ]
    moving = threading.Thread(
        target=move_cohorts, args=(store, ProjectDay(project_id, DAY_OF_NOON), stop)
    )
    moving.start()
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(running(Worker(store, clock, poll_seconds=0.01)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        clock.now_us += HOUR  # what was slow on a busy machine has rested
        assert wait_for(lambda: marked(store) == [])
    stop.set()
    moving.join()
    check_rollups(store)


def test_time_before_1970_is_rolled_up_once(store: Store, project_id: int) -> None:
    key, began = JobKey(project_id, "llm-70b"), -30 * HOUR
    deliver(store, key, [facts(began), event(AttemptStarted, began, gpus=8)])
    refreshed(store, key, began + MINUTE)
    deliver(store, key, [event(PhaseStarted, began + HOUR, phase=Phase.TRAIN_LOOP)])
    deliver(store, key, [event(AttemptEnded, 2 * HOUR, outcome=Outcome.FAILED)])
    refreshed(store, key, 2 * HOUR)

    check_rollups(store)
