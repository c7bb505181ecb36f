"""What is read of a project's attempts, for whoever searches it for regressions."""

from ett_service.core.events import AttemptStarted, Exclusion, PhaseStarted, SpanOver
from ett_service.core.words import Category, Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_project
from ett_service.storage.regressions import observations
from ett_service.storage.regressions.observations import (
    ObservedJob,
    ObservedRecovery,
    ObservedRun,
    ObservedSegment,
    ObservedStage,
)
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.fleet import calm_job, failing_job, store_job
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event

DAY = (NOON - HOUR, NOON + 23 * HOUR)
SAVES = frozenset({Category.CHECKPOINT_BLOCKING})


def _saving(start: int, minutes: int) -> SpanOver:
    end = start + minutes * MINUTE
    return event(SpanOver, end, start=start, phase=Phase.CHECKPOINT_BLOCKING)


def _running(store: Store, project_id: int, job: str, now: int) -> None:
    """Keep a job whose only attempt initialises since noon."""
    key = JobKey(project_id, job)
    events = [
        event(AttemptStarted, NOON, gpus=8),
        event(PhaseStarted, NOON + MINUTE, phase=Phase.LAUNCHER_INIT),
    ]
    deliver(store, key, events)
    refreshed(store, key, now)


def test_attempts_come_with_what_they_spent_on_each_category(store: Store, project_id: int) -> None:
    store_job(store, project_id, "fails", failing_job(NOON))
    store_job(store, project_id, "calm", calm_job(NOON, initialising=3, compiling=12, training=90))

    with store.reading() as conn:
        calm, first, second = observations.attempts(conn, project_id, DAY)
        assert list(observations.attempts(conn, project_id + 1, DAY)) == []
        assert list(observations.attempts(conn, project_id, (0, NOON))) == []
    assert calm.loop_started_us == NOON + 15 * MINUTE
    assert calm.categories_us == {
        "launcher_init": 3 * MINUTE, "pt2_compile": 12 * MINUTE, "effective_training": 90 * MINUTE,
    }  # fmt: skip
    assert (first.job, first.number, first.outcome) == ("fails", 0, Outcome.FAILED)
    assert (first.origin, first.cause) == ("infra", "unknown")
    assert first.unsaved_us == 50 * MINUTE
    assert (second.number, second.outcome, second.gpus) == (1, Outcome.COMPLETED, 8)


def test_jobs_say_what_they_are_and_nothing_where_they_say_nothing(
    store: Store, project_id: int
) -> None:
    job = calm_job(
        NOON, compiling=1, training=1,
        team="t", model="m", cluster="c", hardware="H100", precision="fp8",
    )  # fmt: skip
    store_job(store, project_id, "told", job)
    store_job(store, project_id, "untold", calm_job(NOON, training=1))

    with store.reading() as conn:
        jobs = dict(observations.jobs(conn, project_id, DAY))
        without = dict(observations.jobs(conn, project_id, DAY, named=()))
    assert jobs["told"] == ObservedJob(
        ("t", "m", "c", "H100", "fp8", ""), (ObservedRun(0, MINUTE),)
    )
    assert jobs["untold"] == ObservedJob(("",) * 6, (ObservedRun(0, 0),))
    assert without["told"] == ObservedJob(
        ("t", "m", "c", "H100", "", ""), (ObservedRun(0, MINUTE),)
    )


def test_a_recovery_is_known_once_its_loop_began(store: Store, project_id: int) -> None:
    store_job(store, project_id, "fails", failing_job(NOON))
    over_at = NOON + 75 * MINUTE

    with store.reading() as conn:
        [recovery] = observations.recoveries(conn, project_id, DAY)
        assert list(observations.recoveries(conn, project_id, (NOON, over_at))) == []
        assert list(observations.recoveries(conn, project_id, (over_at, over_at + 1)))
    assert recovery == ObservedRecovery("fails", 1, over_at, 15 * MINUTE)


def test_each_stop_for_a_save_is_one_stretch(store: Store, project_id: int) -> None:
    saves = [_saving(NOON + 20 * MINUTE, 2), _saving(NOON + 40 * MINUTE, 5)]
    store_job(store, project_id, "saves", [*calm_job(NOON, initialising=3, training=90), *saves])

    with store.reading() as conn:
        segments = sorted(observations.segments(conn, project_id, DAY, SAVES))
        until = (NOON, NOON + 45 * MINUTE)
        assert len(list(observations.segments(conn, project_id, until, SAVES))) == 1
    assert [(each.started_us, each.ended_us) for each in segments] == [
        (NOON + 20 * MINUTE, NOON + 22 * MINUTE),
        (NOON + 40 * MINUTE, NOON + 45 * MINUTE),
    ]
    assert {(each.job, each.number, each.category) for each in segments} == {
        ("saves", 0, "checkpoint_blocking")
    }


def test_stages_are_summed_over_an_attempt(store: Store, project_id: int) -> None:
    store_job(store, project_id, "publishes", calm_job(NOON, training=5, publishing=10))

    with store.reading() as conn:
        [stage] = observations.stages(conn, project_id, DAY)
    assert stage == ObservedStage("publishes", 0, "shutdown", "model_publish", 1, 10 * MINUTE)


def test_what_is_open_at_an_instant_is_found_while_it_lasts(store: Store, project_id: int) -> None:
    now = NOON + 5 * MINUTE
    _running(store, project_id, "runs", now)
    store_job(store, project_id, "over", calm_job(NOON, initialising=3, training=90))

    def open_at(at: int) -> dict[str, ObservedSegment]:
        with store.reading() as conn:
            return {each.job: each for each in observations.open_segments(conn, project_id, at)}

    earlier, later = open_at(NOON + 2 * MINUTE), open_at(NOON + 30 * MINUTE)
    assert (earlier["over"].category, later["over"].category) == (
        "launcher_init",
        "effective_training",
    )
    assert earlier["runs"].category == later["runs"].category == "launcher_init"
    assert later["runs"].started_us == NOON + MINUTE
    assert open_at(NOON + 93 * MINUTE).keys() == {"runs"}
    assert open_at(NOON - 1) == {}


def test_a_stretch_that_is_open_is_not_completed(store: Store, project_id: int) -> None:
    _running(store, project_id, "runs", NOON + 5 * MINUTE)

    with store.reading() as conn:
        initialising = frozenset({Category.LAUNCHER_INIT})
        assert list(observations.segments(conn, project_id, DAY, initialising)) == []


def test_exclusions_that_stand_are_read_by_job(store: Store, project_id: int) -> None:
    for job in ("a", "b", "c"):
        store_job(store, project_id, job, calm_job(NOON, training=5))
    windows = [Exclusion(NOON, NOON + HOUR), Exclusion(None, NOON)]
    for job, some in (("a", windows), ("b", [Exclusion()]), ("c", [Exclusion()])):
        key = JobKey(project_id, job)
        store.write(
            lambda conn, key=key, some=some: corrections.put_exclusion(  # type: ignore[misc]
                conn, key, some, why="bench", made_by="ett_x", now_us=RECEIVED_AT
            )
        )
    store.write(
        lambda conn: corrections.take_back_exclusion(
            conn, JobKey(project_id, "c"), made_by="ett_x", now_us=RECEIVED_AT
        )
    )
    other = store.write(lambda conn: create_project(conn, "other", RECEIVED_AT))

    with store.reading() as conn:
        by_job = observations.exclusions(conn, project_id)
        assert observations.exclusions(conn, other) == {}
    assert set(by_job["a"]) == set(windows)
    assert by_job["b"] == [Exclusion()]
    assert "c" not in by_job
