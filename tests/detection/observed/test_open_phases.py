"""Phases that are open at an instant, and which of them are open for too long."""

import pytest

from ett_service.core.events import AttemptStarted, Event, Heartbeat, JobFacts, PhaseStarted
from ett_service.core.words import Phase
from ett_service.detection.observed.inputs import observe
from ett_service.detection.observed.open_phases import OpenPhase, open_phases
from ett_service.detection.sample import Plan
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.fleet import calm_job, store_job
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event

AT = NOON + 6 * HOUR
PLAN = Plan(cohort=("cluster",), strata=())


def _open_phases(store: Store, project_id: int, at: int = AT) -> list[OpenPhase]:
    with store.reading() as conn:
        observed = observe(conn, project_id, at, 3, PLAN)
        return open_phases(conn, project_id, observed, at)


def _runs(store: Store, project_id: int, job: str, phases: dict[Phase, int], cluster: str) -> None:
    """Keep a job that began its phases so many minutes ago, and goes on."""
    events: list[Event] = [
        event(JobFacts, AT - HOUR, cluster=cluster),
        event(AttemptStarted, AT - max(phases.values()) * MINUTE, gpus=8),
        *(event(PhaseStarted, AT - ago * MINUTE, phase=phase) for phase, ago in phases.items()),
        event(Heartbeat, AT - MINUTE),
    ]
    key = JobKey(project_id, job)
    deliver(store, key, events)
    refreshed(store, key, AT)


def test_the_oldest_of_each_phase_and_cohort_is_reported(store: Store, project_id: int) -> None:
    for ago in (2, 9, 5):
        _runs(store, project_id, f"a{ago}", {Phase.LAUNCHER_INIT: ago}, "a")
    _runs(store, project_id, "b", {Phase.LAUNCHER_INIT: 3}, "b")
    _runs(store, project_id, "loops", {Phase.LAUNCHER_INIT: 80, Phase.TRAIN_LOOP: 70}, "a")

    assert [(each.job, each.phase, each.age_us) for each in _open_phases(store, project_id)] == [
        ("a9", "launcher_init", 9 * MINUTE),
        ("b", "launcher_init", 3 * MINUTE),
    ]


@pytest.mark.parametrize(("ago", "is_stuck"), [(11, False), (13, True)])
def test_three_times_the_99th_percentile_of_its_cluster_is_stuck(
    store: Store, project_id: int, ago: int, *, is_stuck: bool
) -> None:
    for number in range(4):
        before = calm_job(NOON, initialising=4, training=9, cluster="a")
        store_job(store, project_id, f"before {number}", before)
    store_job(store, project_id, "other", calm_job(NOON, initialising=60, training=9, cluster="b"))
    _runs(store, project_id, "hangs", {Phase.LAUNCHER_INIT: ago}, "a")

    [phase] = _open_phases(store, project_id)
    assert phase.p99_us == 4 * MINUTE
    assert phase.stuck is is_stuck


def test_a_stall_is_stuck_after_half_an_hour_though_none_was_over(
    store: Store, project_id: int
) -> None:
    for ago, job in ((29, "waits"), (31, "hangs")):
        _runs(store, project_id, job, {Phase.TRAIN_LOOP: 50, Phase.STALLED: ago}, job)
    _runs(store, project_id, "new", {Phase.LAUNCHER_INIT: 300}, "new")

    assert {each.job: (each.p99_us, each.stuck) for each in _open_phases(store, project_id)} == {
        "new": (None, False),
        "hangs": (None, True),
        "waits": (None, False),
    }


def test_a_replay_finds_what_was_open_then(store: Store, project_id: int) -> None:
    store_job(store, project_id, "over", calm_job(NOON, initialising=40, training=9))

    [phase] = _open_phases(store, project_id, NOON + 30 * MINUTE)
    assert (phase.job, phase.age_us) == ("over", 30 * MINUTE)
    assert _open_phases(store, project_id, NOON + 45 * MINUTE) == []
