"""Durations by the instant at which they began, in the requested cohorts."""

from ett_service.core.events import AttemptStarted, SpanOver
from ett_service.core.words import Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.fleet.occurrences import (
    Kind,
    Occurrence,
    cohort_ids,
    hourly_ett,
    occurrences,
)
from ett_service.storage.fleet.rollups import CohortFilter
from tests.builders.clock import HOUR, MINUTE, NOON
from tests.builders.fleet import calm_job, failing_job, store_job
from tests.builders.record import event

EVERYTHING = CohortFilter()


def _occurrences(
    store: Store, kind: Kind, window: tuple[int, int], cohorts: CohortFilter = EVERYTHING
) -> list[Occurrence]:
    with store.reading() as conn:
        return list(occurrences(conn, cohorts, kind, window))


def _saving(start: int, minutes: int) -> SpanOver:
    end = start + minutes * MINUTE
    return event(SpanOver, end, start=start, phase=Phase.CHECKPOINT_BLOCKING)


def test_each_kind_is_found_where_it_began(store: Store, project_id: int) -> None:
    compiles = calm_job(NOON, initialising=3, compiling=12, training=90)
    saves = [_saving(NOON + 20 * MINUTE, 2), _saving(NOON + 40 * MINUTE, 5)]
    store_job(store, project_id, "compiles", [*compiles, *saves])
    store_job(store, project_id, "fails", failing_job(NOON))
    everything = (NOON, NOON + 2 * HOUR)

    assert _occurrences(store, Kind.TIME_TO_START, everything) == [
        (project_id, "compiles", NOON, 15 * MINUTE),
        (project_id, "fails", NOON, 10 * MINUTE),
    ]
    assert _occurrences(store, Kind.TIME_TO_RECOVER, everything) == [
        (project_id, "fails", NOON + HOUR, 15 * MINUTE)
    ]
    assert _occurrences(store, Kind.PT2_COMPILE, everything) == [
        (project_id, "compiles", NOON, 12 * MINUTE)
    ]
    assert _occurrences(store, Kind.CHECKPOINT_BLOCKING, everything) == [
        (project_id, "compiles", NOON, round(3.5 * MINUTE))
    ]
    for kind in Kind:
        assert _occurrences(store, kind, (NOON - HOUR, NOON)) == []
    assert _occurrences(store, Kind.TIME_TO_RECOVER, (NOON + HOUR + 1, NOON + 2 * HOUR)) == []


def test_a_compile_that_reached_no_loop_is_not_one_that_is_over(
    store: Store, project_id: int
) -> None:
    store_job(store, project_id, "stuck", calm_job(NOON, compiling=12))

    assert _occurrences(store, Kind.PT2_COMPILE, (NOON, NOON + HOUR)) == []
    assert _occurrences(store, Kind.TIME_TO_START, (NOON, NOON + HOUR)) == []


def test_only_wanted_cohorts_count(store: Store, project_id: int) -> None:
    store_job(store, project_id, "a", calm_job(NOON, compiling=1, training=1, model="a", gpus=8))
    store_job(store, project_id, "b", calm_job(NOON, compiling=2, training=2, model="b", gpus=64))
    window = (NOON, NOON + HOUR)

    for cohorts in (
        CohortFilter(where={"model": frozenset({"b"})}),
        CohortFilter((project_id,), {"size": frozenset({"64-127"})}),
    ):
        [occurrence] = _occurrences(store, Kind.PT2_COMPILE, window, cohorts)
        assert occurrence[1] == "b"
        with store.reading() as conn:
            [of_b] = cohort_ids(conn, cohorts)
            assert list(hourly_ett(conn, cohorts, window)) == [
                (project_id, "b", NOON, of_b, 64 * 2 * MINUTE, 64 * 4 * MINUTE)
            ]
    assert _occurrences(store, Kind.PT2_COMPILE, window, CohortFilter((project_id + 1,))) == []


def test_what_an_attempt_did_is_in_the_cohort_of_that_attempt(
    store: Store, project_id: int
) -> None:
    start = NOON + 2 * HOUR
    resized = [
        *calm_job(NOON, compiling=10, training=20, gpus=8),
        event(AttemptStarted, start, attempt=1, gpus=64),
        event(SpanOver, start + MINUTE, start=start, attempt=1, phase=Phase.PT2_COMPILE),
        event(
            SpanOver,
            start + 9 * MINUTE,
            start=start + MINUTE,
            attempt=1,
            phase=Phase.TRAIN_LOOP,
        ),
    ]
    store_job(store, project_id, "resized", resized)
    large = CohortFilter(where={"size": frozenset({"64-127"})})

    assert _occurrences(store, Kind.PT2_COMPILE, (NOON, NOON + 3 * HOUR), large) == [
        (project_id, "resized", start, MINUTE)
    ]


def test_each_job_s_time_in_a_window_is_listed_by_hour(store: Store, project_id: int) -> None:
    store_job(store, project_id, "long", calm_job(NOON + 30 * MINUTE, compiling=60, training=60))

    with store.reading() as conn:
        [only] = cohort_ids(conn, EVERYTHING)
        assert sorted(hourly_ett(conn, EVERYTHING, (NOON, NOON + 2 * HOUR))) == [
            (project_id, "long", NOON, only, 0, 8 * 30 * MINUTE),
            (project_id, "long", NOON + HOUR, only, 8 * 30 * MINUTE, 8 * 60 * MINUTE),
        ]
        assert list(hourly_ett(conn, EVERYTHING, (NOON, NOON))) == []
