"""Each instant is searched once, by the leader, and commits with its notices or not at all."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, select

from ett_service.core.intervals import DAY_US, HOUR_US, SECOND_US
from ett_service.core.regressions.finding import Metric, State, Triage, Verdict
from ett_service.detection.run import RunResult
from ett_service.detection.sample import Memory, Plan
from ett_service.notifications.notice import Status, from_json
from ett_service.notifications.routing import Directory
from ett_service.storage.engine import lease
from ett_service.storage.engine.lease import LeaseLost
from ett_service.storage.engine.store import Store
from ett_service.storage.record.keys import create_project
from ett_service.storage.regressions import detection_runs, notices, regressions
from ett_service.storage.regressions.findings import Act
from ett_service.storage.regressions.notices import Muted
from ett_service.storage.regressions.regressions import RegressionFilter
from ett_service.storage.schema import delivery, detection_run, dirty, job, regression
from ett_service.worker.notify import Audience
from ett_service.worker.regressions import LEASE, DetectionOptions, DetectionThread
from tests.builders.clock import NOON
from tests.builders.databases.engines import ON_ONE_ENGINE
from tests.builders.regressions.searches import (
    RECEIVER,
    Script,
    Search,
    searched_before,
    searching,
)
from tests.builders.regressions.stored import finding
from tests.builders.servers.waiting import PATIENCE_S, wait_for

COMPILE = finding()
QUIET = replace(COMPILE, holds=False)
MINUTE_US = 60 * SECOND_US
MIDNIGHT = NOON // DAY_US * DAY_US


@pytest.fixture
def search(store: Store, project_id: int) -> Iterator[Search]:
    """Return an evaluator under a clock that stands; it finds the same from day 0 on."""
    searched_before(store, project_id)
    with searching(store, Script({number: [COMPILE] for number in range(30)})) as search:
        yield search


def sent(store: Store) -> list[tuple[str, int, str]]:
    """Return what was put into the outbox, in its order: status, version and receiver."""
    with store.reading() as conn:
        rows = conn.execute(
            select(delivery).order_by(delivery.c.made_us, delivery.c.version, delivery.c.id)
        ).all()
    return [(from_json(row.body).status.value, row.version, row.receiver) for row in rows]


def state(store: Store) -> str:
    """Return where the only finding stands."""
    with store.reading() as conn:
        return str(conn.execute(select(regression.c.state)).scalar_one())


def act(by: str = "ana", at_us: int = NOON) -> Act:
    """Return an act of somebody."""
    return Act(by, "", at_us)


def mute(store: Store, project_id: int, until_us: int) -> None:
    """Mute the phase from the beginning until then."""
    muted = Muted({"cluster": "a"}, "pt2_compile", 0, until_us)
    store.write(
        partial(notices.add_mute, project_id=project_id, muted=muted, by="ana", why="", now_us=0)
    )


def test_an_instant_is_searched_once(search: Search, store: Store, project_id: int) -> None:
    for hours in (1, 2, 23):
        search.run_once(0, hours)
    search.run_once(1)

    assert search.script.looked == [(project_id, 0), (project_id, 1)]
    with store.reading() as conn:
        (latest,) = detection_runs.latest(conn)
        bodies = conn.execute(select(detection_run.c.body).order_by(detection_run.c.at_us))
        assert list(bodies.scalars()) == ["{}", "{}", '{"power":[]}']
    assert (latest.at_us, latest.series, latest.epoch) == (MIDNIGHT + DAY_US, 7, 1)


def test_of_the_runs_that_were_missed_the_latest_is_made_up_for(
    search: Search, project_id: int
) -> None:
    search.run_once(0)
    search.run_once(9)
    assert search.script.looked == [(project_id, 0), (project_id, 9)]


def test_what_fires_is_sent_once_and_so_is_its_end(search: Search, store: Store) -> None:
    search.script.findings = {number: [COMPILE if number < 4 else QUIET] for number in range(8)}
    for number in range(8):
        search.run_once(number, 1)
        search.run_once(number, 2)

    assert sent(store) == [("firing", 1, "fleet"), ("resolved", 2, "fleet")]
    assert state(store) == State.RESOLVED


@ON_ONE_ENGINE
@pytest.mark.parametrize(
    "verdict", [Verdict.IMPROVEMENT, Verdict.INCIDENT, Verdict.MIX, Verdict.RELABELLING]
)
def test_only_regressions_are_sent(search: Search, store: Store, verdict: Verdict) -> None:
    search.script.findings = {number: [finding(verdict=verdict)] for number in range(2)}
    search.run_once(0)
    search.run_once(1)

    assert state(store) == State.FIRING
    assert sent(store) == []


def test_the_notice_says_what_the_record_says(search: Search, store: Store) -> None:
    search.run_once(0)
    search.run_once(1)

    with store.reading() as conn:
        notice = from_json(conn.execute(select(delivery.c.body)).scalar_one())
        stored = conn.execute(select(regression)).one()
    assert (notice.id, notice.project, notice.severity) == (stored.id, "research", "high")
    assert (notice.status, notice.starts_us) == (Status.FIRING, MIDNIGHT + DAY_US)
    assert notice.finding == COMPILE


def test_a_mute_keeps_the_record_and_its_end_notifies(
    search: Search, store: Store, project_id: int
) -> None:
    mute(store, project_id, MIDNIGHT + 2 * DAY_US + HOUR_US)
    search.run_once(0)
    search.run_once(1)
    search.run_once(2, 0)
    assert (state(store), sent(store)) == (State.FIRING, [])

    search.run_once(2, 1)
    search.run_once(2, 2)
    assert sent(store) == [("firing", 1, "fleet")]


def test_what_began_and_ended_while_it_was_muted_is_never_sent(
    search: Search, store: Store, project_id: int
) -> None:
    search.script.findings = {number: [COMPILE if number < 2 else QUIET] for number in range(6)}
    mute(store, project_id, MIDNIGHT + 5 * DAY_US)
    for number in range(7):
        search.run_once(number)
    assert (state(store), sent(store)) == (State.RESOLVED, [])


def test_what_was_sent_and_ended_while_it_was_muted_is_sent_as_resolved_when_the_mute_ends(
    search: Search, store: Store, project_id: int
) -> None:
    search.script.findings = {number: [COMPILE if number < 2 else QUIET] for number in range(6)}
    search.run_once(0)
    search.run_once(1)
    mute(store, project_id, MIDNIGHT + 5 * DAY_US)
    for number in (2, 3, 4):
        search.run_once(number)
    assert (state(store), len(sent(store))) == (State.RESOLVED, 1)

    search.run_once(5)
    assert sent(store)[1:] == [("resolved", 2, "fleet")]


def test_what_somebody_accepts_is_sent_as_resolved(
    search: Search, store: Store, project_id: int
) -> None:
    search.run_once(0)
    search.run_once(1)
    with store.reading() as conn:
        ident = conn.execute(select(regression.c.id)).scalar_one()
    at_us = search.script.now_us
    store.write(lambda conn: regressions.triage(conn, project_id, ident, Triage.REAL, act()))
    store.write(lambda conn: regressions.accept(conn, project_id, ident, act(at_us=at_us)))
    search.run_once(1, 13)

    assert sent(store) == [("firing", 1, "fleet"), ("resolved", 2, "fleet")]


def test_a_project_that_fails_keeps_no_other_waiting(search: Search, store: Store) -> None:
    other = store.write(lambda conn: create_project(conn, "other", NOON))
    searched_before(store, other)

    def fail(of: int) -> None:
        if of != other:
            raise ValueError

    search.script.trouble = fail
    search.run_once(0)
    search.run_once(0, 13)

    with store.reading() as conn:
        runs = {run.project_id: run.at_us for run in detection_runs.latest(conn)}
    assert [project for project, at_us in runs.items() if at_us == MIDNIGHT] == [other]
    assert len(search.script.looked) == 2  # and is not tried at each look


def test_a_run_waits_for_the_ledgers_but_not_forever(
    search: Search, store: Store, project_id: int
) -> None:
    before, after = MIDNIGHT - HOUR_US, MIDNIGHT + HOUR_US
    row = {"project_id": project_id, "job": "j", "batch": 1}
    store.write(lambda conn: _job(conn, project_id))
    store.write(lambda conn: conn.execute(insert(dirty), row | {"marked_us": before}))
    search.script.now_us = MIDNIGHT + MINUTE_US
    search.run_once()
    assert search.script.looked == []

    store.write(lambda conn: conn.execute(delete(dirty)))
    store.write(lambda conn: conn.execute(insert(dirty), row | {"marked_us": after}))
    search.run_once()
    assert len(search.script.looked) == 1

    store.write(lambda conn: conn.execute(delete(dirty)))
    store.write(lambda conn: conn.execute(insert(dirty), row | {"marked_us": before}))
    search.script.now_us = MIDNIGHT + DAY_US + 6 * MINUTE_US
    search.run_once()
    assert len(search.script.looked) == 2


def _job(conn: Any, project_id: int) -> None:
    values = {"project_id": project_id, "job": "j"}
    for column in job.columns:
        if column.name not in values and not column.nullable:
            values[column.name] = "" if column.type.python_type is str else 0
    conn.execute(insert(job), values)


def test_who_lost_the_lease_writes_nothing(search: Search, store: Store) -> None:
    search.run_once(0)
    store.write(partial(lease.resign, name=LEASE, epoch=1))
    assert store.write(partial(lease.take, name=LEASE, holder="other", seconds=60)) == 2

    search.script.now_us += DAY_US
    with pytest.raises(LeaseLost):
        search.thread.run_once(1)

    assert state(store) == State.PENDING
    with store.reading() as conn:
        assert len(conn.execute(select(detection_run)).all()) == 2


@ON_ONE_ENGINE
def test_it_stops_in_the_middle_of_a_project_without_waiting_for_it(
    store: Store, project_id: int
) -> None:
    began, released, over = threading.Event(), threading.Event(), threading.Event()

    def wait(_project_id: int) -> None:
        began.set()
        released.wait(PATIENCE_S)
        over.set()

    searched_before(store, project_id)
    script = Script({}, trouble=wait)
    with searching(store, script) as search:
        search.thread.start()
        assert began.wait(PATIENCE_S)
        search.thread.stop_soon()
        search.thread.join()
        assert not over.is_set()
        released.set()

    assert script.looked == [(project_id, 0)]
    with store.reading() as conn:
        assert [run.at_us for run in detection_runs.latest(conn)] == [MIDNIGHT - DAY_US]
    assert store.write(partial(lease.take, name=LEASE, holder="next", seconds=60)) is not None


def test_the_detector_itself_runs_where_nothing_is_reported(store: Store, project_id: int) -> None:
    searched_before(store, project_id)
    thread = DetectionThread(store, DetectionOptions(settle_us=0))
    thread.start()
    try:
        assert wait_for(lambda: _run(store).at_us >= MIDNIGHT)
    finally:
        thread.stop_soon()
        thread.join()
    run = _run(store)
    assert (run.project_id, run.at_us % DAY_US) == (project_id, 0)
    assert "power" in json.loads(run.body)


def _run(store: Store) -> detection_runs.DetectionRun:
    with store.reading() as conn:
        [run] = detection_runs.latest(conn)
    return run


def remarks(store: Store) -> list[tuple[str, str]]:
    """Return the status and remark of what was put into the outbox, in its order."""
    with store.reading() as conn:
        rows = conn.execute(select(delivery).order_by(delivery.c.made_us, delivery.c.version)).all()
    notices = [from_json(row.body) for row in rows]
    return [(notice.status.value, notice.remark) for notice in notices]


def test_what_nobody_acknowledges_is_notified_again_each_day(store: Store, project_id: int) -> None:
    searched_before(store, project_id)
    audience = Audience(Directory([RECEIVER]), remind_us=DAY_US)
    script = Script({number: [COMPILE] for number in range(30)})
    with searching(store, script, audience=audience) as search:
        for number in range(4):
            search.run_once(number)
            search.run_once(number, hours=13)
        again = ("firing", "A reminder: nobody has acknowledged it yet.")
        assert remarks(store) == [("firing", ""), again, again]

        with store.reading() as conn:
            (stored,) = regressions.every(conn, [project_id], RegressionFilter())
        acknowledge = partial(regressions.acknowledge, project_id=project_id, act=act())
        store.write(partial(acknowledge, regression_id=stored.id))
        search.run_once(5)
        assert len(remarks(store)) == 3


def test_by_default_of_an_audience_nobody_is_reminded(search: Search, store: Store) -> None:
    for number in range(6):
        search.run_once(number)
    assert len(sent(store)) == 1


def test_noise_is_over_for_receivers_and_then_silent(
    search: Search, store: Store, project_id: int
) -> None:
    for number in (0, 1):
        search.run_once(number)
    with store.reading() as conn:
        (stored,) = regressions.every(conn, [project_id], RegressionFilter())
    called = partial(regressions.triage, project_id=project_id, called=Triage.NOISE, act=act())
    store.write(partial(called, regression_id=stored.id))
    for number in (2, 3):
        search.run_once(number)
    assert [version for _, version, _ in sent(store)] == [1, 2]
    status, remark = remarks(store)[-1]
    assert (status, remark.startswith("Somebody called it noise")) == ("resolved", True)


@pytest.mark.parametrize("tune", [True, False])
def test_verdicts_tune_the_next_search_where_the_settings_say_so(
    store: Store, project_id: int, *, tune: bool
) -> None:
    searched_before(store, project_id)
    script = Script({number: [COMPILE] for number in range(9)})
    plans: list[Plan] = []

    def evaluate(
        conn: Connection, project_id: int, at_us: int, plan: Plan, memory: Memory
    ) -> RunResult:
        plans.append(plan)
        return script.evaluate(conn, project_id, at_us, plan, memory)

    with searching(store, script, evaluate=evaluate, tune=tune) as search:
        search.run_once(0)
        search.run_once(1)
        with store.reading() as conn:
            (stored,) = regressions.every(conn, [project_id], RegressionFilter())
        called = partial(regressions.triage, project_id=project_id, called=Triage.NOISE)
        noise = act(at_us=script.now_us)
        store.write(partial(called, regression_id=stored.id, act=noise))
        search.run_once(2)
    assert plans[0].options.tuned == {}
    tuned = plans[-1].options.tuned
    assert (tuned.get(Metric.PHASE_SECONDS, 1.0) > 1) is tune
