"""The first search over a project finds what there was to be found in its last days."""

from contextlib import suppress

import pytest
from sqlalchemy import func, select

from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.core.regressions.finding import State, Verdict
from ett_service.core.regressions.state import StateRules
from ett_service.detection import run
from ett_service.detection.run import memory_of, retrace
from ett_service.detection.sample import Plan
from ett_service.notifications.notice import Status, from_json
from ett_service.storage.engine.store import Store
from ett_service.storage.regressions import detection_runs
from ett_service.storage.regressions import findings as regression_rows
from ett_service.storage.regressions.detection_runs import UnsearchedHistory
from ett_service.storage.schema import delivery, detection_run, regression, regression_change
from ett_service.worker import regressions
from tests.builders.clock import NOON, RECEIVED_AT
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.fleet import calm_job, store_job
from tests.builders.regressions.searches import Script, searching
from tests.builders.servers.worker import without
from tests.builders.slowed_fleet import DAY, END, NEW, ONSET, slowed

MINUTE_US = 60 * SECOND_US


def run_once(store: Store, now_us: int) -> None:
    """Have a worker of its own look once, by its clock, with the detector itself."""
    with searching(store, Script(now_us=now_us), evaluate=run.evaluate) as search:
        search.run_once()


def runs_at(store: Store) -> list[int]:
    """Return when runs were, the first first."""
    with store.reading() as conn:
        return list(conn.execute(select(detection_run.c.at_us).order_by("at_us")).scalars())


def notified(store: Store) -> list[tuple[Status, int]]:
    """Return what was put into the outbox: status and version."""
    with store.reading() as conn:
        rows = conn.execute(select(delivery.c.body, delivery.c.version).order_by("id")).all()
    return [(from_json(row.body).status, row.version) for row in rows]


def test_what_began_last_week_fires_at_once_as_of_then(store: Store, project_id: int) -> None:
    slowed(store, project_id)
    run_once(store, END + HOUR_US)

    assert runs_at(store) == [END - day * DAY for day in reversed(range(14))]
    with store.reading() as conn:
        [stored] = conn.execute(select(regression).where(regression.c.state != "inactive")).all()
        changes = conn.execute(
            select(regression_change.c.what, regression_change.c.at_us)
            .where(regression_change.c.regression_id == stored.id)
            .order_by(regression_change.c.seq)
        ).all()
        [latest] = detection_runs.latest(conn)
    assert (stored.state, stored.verdict) == (State.FIRING, Verdict.REGRESSION)
    assert (stored.phase, stored.cohort) == ("launcher_init", '{"cluster": "a", "model": "m"}')
    assert ONSET < stored.pending_us < END - DAY
    assert stored.firing_us == stored.pending_us + DAY
    assert stored.last_run_us == END
    assert [*map(tuple, changes)] == [("pending", stored.pending_us), ("firing", stored.firing_us)]
    suspects = regression_rows.attribution_from_json(stored.attribution).suspects
    assert (suspects[0].dimension, suspects[0].value) == ("code_version", NEW)
    assert latest.body != "{}"
    assert notified(store) == [(Status.FIRING, 1)]


@ON_ONE_ENGINE
@pytest.mark.parametrize("runs", [1, 5])
def test_a_replay_has_the_power_of_the_search_that_was_stored(
    store: Store, project_id: int, runs: int
) -> None:
    slowed(store, project_id)
    run_once(store, END + HOUR_US)
    run_once(store, END + DAY + HOUR_US)

    with store.reading() as conn:
        [latest] = detection_runs.latest(conn)
        memory = memory_of(regression_rows.states_before(conn, project_id, END + DAY))
        instants = [END + DAY - day * DAY for day in reversed(range(runs))]
        replayed, _ = retrace(conn, project_id, instants, Plan(), StateRules(), memory)
    assert memory.open
    assert latest.body == regression_rows.to_json({"power": replayed.last.power})


@ON_ONE_ENGINE
def test_what_was_over_by_the_last_run_is_recorded_and_sent_to_nobody(
    store: Store, project_id: int
) -> None:
    slowed(store, project_id, factor=4.0, onset=END - 20 * DAY, until=END - 8 * DAY)
    run_once(store, END + HOUR_US)

    with store.reading() as conn:
        states = conn.execute(
            select(regression.c.state, regression.c.version).where(
                regression.c.verdict == Verdict.REGRESSION
            )
        ).all()
    assert ("resolved", 2) in [tuple(row) for row in states]
    assert notified(store) == []


def test_another_worker_finds_nothing_to_do_and_the_next_day_is_one_run(
    store: Store, project_id: int
) -> None:
    slowed(store, project_id)
    for now_us in (END + HOUR_US, END + 2 * HOUR_US):
        run_once(store, now_us)
    assert len(runs_at(store)) == 14

    run_once(store, END + DAY + HOUR_US)
    assert runs_at(store)[14:] == [END + DAY]
    assert notified(store) == [(Status.FIRING, 1)]


def test_who_dies_on_the_way_leaves_all_of_it_to_the_next(store: Store, project_id: int) -> None:
    slowed(store, project_id)
    with without(store, "delivery"), suppress(Exception):
        run_once(store, END + HOUR_US)
    assert runs_at(store) == []
    with store.reading() as conn:
        assert conn.execute(select(func.count()).select_from(regression)).scalar_one() == 0

    run_once(store, END + HOUR_US)
    assert len(runs_at(store)) == 14
    assert notified(store) == [(Status.FIRING, 1)]


def test_an_empty_project_is_searched_once_its_first_job_began_before_a_run(
    store: Store, project_id: int
) -> None:
    run_once(store, END + HOUR_US)
    store_job(store, project_id, "first", calm_job(END + 2 * HOUR_US, training=10))
    run_once(store, END + 3 * HOUR_US)
    assert runs_at(store) == []

    run_once(store, END + 3 * DAY)
    assert runs_at(store) == [END + day * DAY for day in (1, 2, 3)]


@ON_ONE_ENGINE
def test_it_waits_while_history_comes_in(store: Store, project_id: int) -> None:
    store_job(store, project_id, "old", calm_job(NOON - 2 * DAY, training=10))
    run_once(store, RECEIVED_AT + 4 * MINUTE_US)
    assert runs_at(store) == []

    run_once(store, RECEIVED_AT + 6 * MINUTE_US)
    assert runs_at(store) != []


@pytest.mark.parametrize(
    ("every_us", "recent_days", "began_us", "days"),
    [
        (DAY_US, 3, 0, [2, 1, 0]),
        (HOUR_US, 3, 0, [2, 1, 0]),
        (2 * DAY_US, 5, 0, [2, 0]),
        (40 * HOUR_US, 5, 0, [2, 0]),
        (30 * DAY_US, 14, 0, [0]),
        (DAY_US, 3, END - DAY_US, [0]),
        (DAY_US, 90, 0, [*reversed(range(28))]),
    ],
)
def test_runs_are_whole_days_apart(
    every_us: int, recent_days: int, began_us: int, days: list[int]
) -> None:
    history = UnsearchedHistory(began_us, began_us)
    instants = regressions.run_instants(END, every_us, recent_days, history)
    assert instants == [END - day * DAY_US for day in days]
