"""From stored attempts to what is searched: which values there are, of whom, and known when."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    Exclusion,
    JobFacts,
    Marker,
    MarkerKind,
    PhaseStarted,
    SpanOver,
)
from ett_service.core.regressions.finding import Metric, Subject
from ett_service.core.words import Outcome, Phase
from ett_service.detection.observed import inputs
from ett_service.detection.observed.inputs import observe
from ett_service.detection.sample import Observed, Plan
from ett_service.storage.engine.store import Store
from ett_service.storage.record import corrections
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.markers import add_marker
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.fleet import LATER, calm_job, failing_job, store_job
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event

DAY = 24 * HOUR
TO = NOON + 12 * HOUR
PLAN = Plan(cohort=("cluster", "model"), strata=("size",))
INIT = Subject(Metric.PHASE_SECONDS, "launcher_init")
COMPILE = Subject(Metric.PHASE_SECONDS, "pt2_compile")
SHUTDOWN = Subject(Metric.PHASE_SECONDS, "shutdown")
PUBLISH = Subject(Metric.STAGE_SECONDS, "shutdown", "model_publish")
START = Subject(Metric.TIME_TO_START_SECONDS)
RECOVER = Subject(Metric.TIME_TO_RECOVER_SECONDS)
UNSAVED = Subject(Metric.UNSAVED_SECONDS)
SAVE = Subject(Metric.CHECKPOINT_BLOCKING_SECONDS, "checkpoint_blocking")
FAILED = Subject(Metric.FAILURES_PER_GPU_HOUR)


def _observed(store: Store, project_id: int, plan: Plan = PLAN, days: int = 3) -> Observed:
    with store.reading() as conn:
        return observe(conn, project_id, TO, days, plan)


def _minutes(observed: Observed) -> Mapping[Subject, Sequence[tuple[float, float]]]:
    """Return each subject's values with when they became known, in minutes, the latter of noon."""
    return {
        subject: [
            (us / MINUTE, (known_us - NOON) / MINUTE)
            for us, known_us in zip(values.us.tolist(), values.known_us.tolist(), strict=True)
        ]
        for subject, values in observed.durations.items()
    }


def test_each_value_is_known_once_it_is_over(store: Store, project_id: int) -> None:
    job = calm_job(NOON, initialising=3, compiling=12, training=90, publishing=10)
    save = event(
        SpanOver, NOON + 22 * MINUTE, start=NOON + 20 * MINUTE, phase=Phase.CHECKPOINT_BLOCKING
    )
    store_job(store, project_id, "calm", [*job, save])

    assert _minutes(_observed(store, project_id)) == {
        INIT: [(3, 15)],
        COMPILE: [(12, 15)],
        SHUTDOWN: [(10, 115)],
        PUBLISH: [(10, 115)],
        START: [(15, 15)],
        SAVE: [(2, 22)],
    }


def test_failures_and_their_hours_are_counted_by_the_size_of_attempts(
    store: Store, project_id: int
) -> None:
    store_job(store, project_id, "fails", failing_job(NOON, cluster="c"))
    store_job(store, project_id, "large", calm_job(NOON, initialising=30, gpus=64, cluster="c"))

    rates = _observed(store, project_id).sample(TO, 1).rates[FAILED]
    by_size = dict(zip(rates.gpus.tolist(), rates.events.tolist(), strict=True))
    assert by_size == {8.0: 1, 64.0: 0}
    assert rates.exposure[rates.gpus == 8.0].tolist() == pytest.approx([8 * (60 + 50) / 60])


def test_a_failure_costs_training_and_a_recovery(store: Store, project_id: int) -> None:
    store_job(store, project_id, "fails", failing_job(NOON))

    observed = _observed(store, project_id)
    assert _minutes(observed) == {
        INIT: [(10, 10), (10, 75)],
        START: [(10, 10)],
        RECOVER: [(15, 75)],
        UNSAVED: [(50, 60)],
    }
    by_cause = FAILED._replace(cause="infra/unknown")
    assert {subject: len(values.us) for subject, values in observed.failures.items()} == {
        FAILED: 1,
        by_cause: 1,
    }
    sample = observed.sample(TO, 1)
    assert sample.rates[FAILED].events.tolist() == [1]
    assert sample.rates[FAILED].exposure.tolist() == pytest.approx([8 * (60 + 50) / 60])


def test_preemptions_are_counted_apart(store: Store, project_id: int) -> None:
    job = calm_job(NOON, initialising=3, training=30)[:-1]
    ended = event(AttemptEnded, NOON + 33 * MINUTE, cycle=0, outcome=Outcome.PREEMPTED)
    store_job(store, project_id, "preempted", [*job, ended])

    observed = _observed(store, project_id)
    assert [each.cause for each in observed.failures] == ["preemption/preemption"]


def test_what_was_cut_short_or_goes_on_has_no_length_yet(store: Store, project_id: int) -> None:
    fails = calm_job(NOON, initialising=3, compiling=4)[:-1]
    failed = event(AttemptEnded, NOON + 7 * MINUTE, cycle=0, outcome=Outcome.FAILED)
    store_job(store, project_id, "fails in a compile", [*fails, failed])
    running = JobKey(project_id, "runs")
    looping = NOON + 5 * MINUTE
    begun: list[Event] = [
        event(AttemptStarted, NOON, gpus=8),
        event(SpanOver, looping, start=NOON, phase=Phase.LAUNCHER_INIT),
        event(PhaseStarted, looping, phase=Phase.TRAIN_LOOP),
        event(PhaseStarted, looping, phase=Phase.PT2_COMPILE),
    ]
    deliver(store, running, begun)
    refreshed(store, running, looping + 3 * MINUTE)

    assert _minutes(_observed(store, project_id)) == {INIT: [(5, 5)], START: [(5, 5)]}


def test_time_to_start_is_not_reported_of_a_job_that_began_before(
    store: Store, project_id: int
) -> None:
    store_job(store, project_id, "fails", failing_job(TO - DAY - 70 * MINUTE))

    subjects = _minutes(_observed(store, project_id, days=1))
    assert START not in subjects
    assert subjects[INIT] == [(10, -12 * 60 + 5)]


def test_attempts_are_of_cohorts_and_of_strata_that_tell_starts_from_restarts(
    store: Store, project_id: int
) -> None:
    store_job(store, project_id, "a", failing_job(NOON, cluster="c", model="m"))
    store_job(store, project_id, "b", calm_job(NOON, training=5, gpus=64, cluster="c", model="m"))
    store_job(store, project_id, "c", calm_job(NOON, training=5, cluster="c"))

    observed = _observed(store, project_id)
    assert observed.cohorts == [
        (("cluster", "c"), ("model", "")),
        (("cluster", "c"), ("model", "m")),
    ]
    assert observed.jobs == ["a", "b", "c"]
    assert observed.attempts.cohort.tolist() == [1, 1, 1, 0]
    assert observed.attempts.unit.tolist() == [0, 0, 1, 2]
    first, restart, larger, other = observed.attempts.stratum.tolist()
    assert first == other
    assert len({first, restart, larger}) == 3
    of_day = observed.sample(TO, 1).shares
    assert of_day is not None
    assert of_day.cohort.tolist() == [0, 1]
    assert of_day.by_category["effective_training"].tolist() == [
        8 * 5 * MINUTE,
        8 * 70 * MINUTE + 64 * 5 * MINUTE,
    ]


def test_the_rarest_cohorts_are_put_together(
    store: Store, project_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MOST_COHORTS", 1)
    for job, model in (("a", "m"), ("b", "m"), ("c", "n"), ("d", "o")):
        store_job(store, project_id, job, calm_job(NOON, training=5, cluster="c", model=model))

    observed = _observed(store, project_id)
    assert observed.cohorts == [
        (("cluster", "c"), ("model", "m")),
        (("cluster", "other"), ("model", "other")),
    ]
    assert observed.attempts.cohort.tolist() == [0, 0, 1, 1]
    assert observed.time_cohort.tolist() == [0, 1, 1]


def test_precision_and_code_version_tell_cohorts_apart_where_asked(
    store: Store, project_id: int
) -> None:
    facts = [
        event(JobFacts, NOON, precision="fp8"),
        event(AttemptStarted, NOON, gpus=8, code_version="v2"),
        event(SpanOver, NOON + MINUTE, start=NOON, phase=Phase.TRAIN_LOOP),
        event(AttemptEnded, NOON + MINUTE, cycle=0, outcome=Outcome.COMPLETED),
    ]
    store_job(store, project_id, "a", facts)

    observed = _observed(store, project_id, Plan(cohort=("precision", "code_version"), strata=()))
    assert observed.cohorts == [(("precision", "fp8"), ("code_version", "v2"))]


def test_what_is_excluded_is_in_nothing(store: Store, project_id: int) -> None:
    store_job(store, project_id, "kept", calm_job(NOON, initialising=1, training=9))
    for job, window in (
        ("wholly", Exclusion()),
        ("at first", Exclusion(NOON, NOON + 6 * MINUTE)),
    ):
        key = store_job(store, project_id, job, calm_job(NOON, initialising=5, training=7))
        _exclude(store, key, window)

    observed = _observed(store, project_id)
    assert _minutes(observed) == {INIT: [(1, 1)], START: [(1, 1)]}
    hours = observed.gpu_hours(TO - DAY, 1)
    assert hours.sum() == pytest.approx(8 * (10 + 6) / 60)
    [time] = observed.time["launcher_init"].tolist()
    assert time == 8 * MINUTE


def _exclude(store: Store, key: JobKey, window: Exclusion) -> None:
    store.write(
        lambda conn: corrections.put_exclusion(
            conn, key, [window], why="bench", made_by="ett_x", now_us=RECEIVED_AT
        )
    )
    refreshed(store, key, LATER)


def test_days_of_maintenance_are_left_out_of_those_whom_it_concerned(
    store: Store, project_id: int
) -> None:
    store_job(store, project_id, "a", calm_job(NOON, training=5, cluster="c", team="t"))
    store_job(store, project_id, "b", calm_job(NOON, training=5, cluster="d", team="u"))
    _maintain(store, project_id, NOON - DAY, NOON - DAY + HOUR, cluster="c", rack="7")
    _maintain(store, project_id, NOON - 2 * DAY, NOON - 2 * DAY + 2 * HOUR, team="u")
    _maintain(store, project_id, NOON - 30 * DAY, NOON - 29 * DAY)
    plan = Plan(cohort=("cluster",), strata=())

    assert _observed(store, project_id, plan).excluded_days == {(1, 0), (0, 1)}
    _maintain(store, project_id, NOON, NOON + HOUR)
    _maintain(store, project_id, NOON - HOUR, None, cluster="d")
    observed = _observed(store, project_id, plan)
    assert observed.excluded_days == {(1, 0), (0, 1), (2, -1)}
    assert observed.sample(TO, 2).excluded_days == {(0, 0), (1, -1)}


def _maintain(store: Store, project_id: int, at: int, end: int | None, **labels: str) -> None:
    marker = Marker(f"m{at}{end}", at, MarkerKind.MAINTENANCE, "Firmware", end, labels)
    store.write(
        lambda conn: add_marker(conn, project_id, marker, made_by="ett_x", now_us=RECEIVED_AT)
    )


def test_hours_are_held_on_the_day_on_which_they_pass_once_scheduling_is_over(
    store: Store, project_id: int
) -> None:
    began = TO - DAY - 2 * HOUR
    scheduled = event(SpanOver, began + HOUR, start=began, phase=Phase.SCHEDULING)
    job = calm_job(began + HOUR, training=180)
    started = event(AttemptStarted, began, gpus=8)
    store_job(store, project_id, "a", [scheduled, started, *job])

    hours = _observed(store, project_id).gpu_hours(TO - 3 * DAY, 3)
    assert hours.sum(axis=(0, 2)).tolist() == [0, 8 * 1, 8 * 2]


def test_an_empty_project_has_nothing_to_look_at(store: Store, project_id: int) -> None:
    observed = _observed(store, project_id)
    sample = observed.sample(TO, 3)
    assert (sample.cohorts, sample.durations, sample.rates) == ([], {}, {})
    assert observed.gpu_hours(TO - DAY, 1).shape == (0, 1, 0)


def test_accelerators_that_nobody_reported_are_not_a_number(store: Store, project_id: int) -> None:
    store_job(store, project_id, "a", calm_job(NOON, initialising=1, training=5, gpus=None))

    sample = _observed(store, project_id).sample(TO, 1)
    assert np.isnan(sample.durations[INIT].gpus).all()


def test_a_sample_of_an_earlier_day_is_what_reading_then_would_give(
    store: Store, project_id: int
) -> None:
    for day in range(4):
        at = TO - 3 * DAY - HOUR + day * DAY
        store_job(store, project_id, f"fails {day}", failing_job(at, cluster=f"c{day % 2}"))
        store_job(
            store, project_id, f"calm {day}", calm_job(at, initialising=day + 1, training=180)
        )
    whole = _observed(store, project_id, days=4)
    with store.reading() as conn:
        then = observe(conn, project_id, TO - DAY, 3, PLAN)

    cut, read = whole.sample(TO - DAY, 3), then.sample(TO - DAY, 3)
    assert cut.cohorts == read.cohorts
    assert cut.durations.keys() == read.durations.keys()
    for subject, durations in cut.durations.items():
        other = read.durations[subject]
        for name in ("us", "day", "cohort"):
            assert getattr(durations, name).tolist() == getattr(other, name).tolist()
    for subject, rates in cut.rates.items():
        assert rates.events.tolist() == read.rates[subject].events.tolist()
        assert rates.exposure.tolist() == read.rates[subject].exposure.tolist()
    assert cut.shares is not None
    assert read.shares is not None
    assert cut.shares.day.tolist() == read.shares.day.tolist()
    for category, us in cut.shares.by_category.items():
        assert us.tolist() == read.shares.by_category[category].tolist()
