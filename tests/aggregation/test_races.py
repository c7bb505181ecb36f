"""Crashes, racing senders and racing workers, forced between every two steps of a refresh."""

import itertools
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import Connection

from ett_service.aggregation.fold_job import KeptFold, refresh
from ett_service.core.events import AttemptEnded, Event
from ett_service.core.words import Outcome
from ett_service.storage.engine.store import Store
from ett_service.storage.record import events
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import SECOND
from tests.builders.databases.engines import ON_SERVERS
from tests.builders.databases.statements import FEWEST_STATEMENTS, Crash, before_statement
from tests.builders.ledgers import (
    LATE_IN_IT,
    deliver,
    marked,
    recomputed,
    refreshed,
    running_job,
    stored,
)
from tests.builders.record import event, progress


def interrupted(
    store: Store, key: JobKey, kept_fold: KeptFold | None, statement: int, act: Callable[[], None]
) -> KeptFold | None:
    """Refresh the job, and *act* in the midst of it."""

    def work(conn: Connection) -> KeptFold | None:
        with before_statement(conn, statement, act):
            return refresh(conn, key, LATE_IN_IT, kept_fold)

    return store.write(work)


def with_fresh_facts(store: Store, key: JobKey, *, forward: bool) -> KeptFold | None:
    """Let a batch come into a running job; return its fold if that is to go *forward*."""
    deliver(store, key, running_job())
    kept_fold = refreshed(store, key, LATE_IN_IT)
    deliver(store, key, [progress(60, LATE_IN_IT)])
    return kept_fold if forward else None


@pytest.mark.parametrize("forward", [True, False])
def test_a_crash_between_any_two_steps_leaves_the_marks_for_the_next(
    store: Store, project_id: int, *, forward: bool
) -> None:
    def crash() -> None:
        raise Crash

    for statement in itertools.count():
        key = JobKey(project_id, f"crashes-{statement}")
        kept_fold = with_fresh_facts(store, key, forward=forward)
        before = stored(store, key)
        try:
            interrupted(store, key, kept_fold, statement, crash)
        except Crash:
            assert stored(store, key) == before
            assert marked(store) == [key]
        else:
            assert statement >= FEWEST_STATEMENTS
            break
        refreshed(store, key, LATE_IN_IT)
        assert stored(store, key) == recomputed(store, key, LATE_IN_IT)


@ON_SERVERS
@pytest.mark.parametrize("forward", [True, False])
def test_facts_that_come_between_any_two_steps_are_folded_now_or_keep_their_mark(
    store: Store, project_id: int, *, forward: bool
) -> None:
    for statement in itertools.count():
        key = JobKey(project_id, f"races-{statement}")
        kept_fold = with_fresh_facts(store, key, forward=forward)
        ended = event(AttemptEnded, LATE_IN_IT + SECOND, outcome=Outcome.FAILED)
        come_in = partial(deliver, store, key, [ended])

        folded = interrupted(store, key, kept_fold, statement, come_in)
        if not _has(store, key, ended):
            assert statement >= FEWEST_STATEMENTS
            break
        if marked(store) == [key]:
            refreshed(store, key, LATE_IN_IT, folded)

        assert stored(store, key) == recomputed(store, key, LATE_IN_IT)
        assert marked(store) == []


def _has(store: Store, key: JobKey, fact: Event) -> bool:
    with store.reading() as conn:
        return fact in events.events(conn, *key)


@ON_SERVERS
def test_a_second_worker_leaves_a_job_that_the_first_is_at(store: Store, project_id: int) -> None:
    for statement in itertools.count(1):
        key = JobKey(project_id, f"shared-{statement}")
        with_fresh_facts(store, key, forward=False)
        seen: list[KeptFold | None] = []

        interrupted(store, key, None, statement, partial(_refresh_too, store, key, seen))
        if not seen:
            assert statement >= FEWEST_STATEMENTS
            break
        assert seen == [None]
        assert stored(store, key) == recomputed(store, key, LATE_IN_IT)


def _refresh_too(store: Store, key: JobKey, seen: list[KeptFold | None]) -> None:
    seen.append(refreshed(store, key, LATE_IN_IT))
