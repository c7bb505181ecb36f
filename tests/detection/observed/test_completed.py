"""Values of attempts: of steps, the mean of each day once it is over; of compiles, misses."""

from collections.abc import Iterator

import numpy as np

from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    PhaseStarted,
    Progress,
    SpanOver,
)
from ett_service.core.regressions.finding import Metric, Subject
from ett_service.core.words import Outcome, Phase
from ett_service.detection.observed.completed import MISSES, completed, completed_of
from ett_service.detection.observed.inputs import observe
from ett_service.detection.sample import AttemptValues, Plan
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.regressions import observations
from tests.builders.clock import HOUR, MINUTE, NOON, SECOND
from tests.builders.fleet import calm_job, failing_job, store_job
from tests.builders.ledgers import deliver, refreshed
from tests.builders.record import event

COMPILE = Subject(Metric.PHASE_SECONDS, "pt2_compile")
MIDNIGHT = NOON + 12 * HOUR
STEP = Subject(Metric.STEP_SECONDS)


def _steps(at: int, hours: int, tokens: int, gpus: int = 8) -> Iterator[Event]:
    """A step a second, reported each half an hour."""
    yield event(AttemptStarted, at, gpus=gpus)
    yield event(PhaseStarted, at, phase=Phase.TRAIN_LOOP)
    for step in range(0, hours * 3600 + 1, 1800):
        yield event(Progress, at + step * SECOND, step=step, tokens=step * tokens)


def _ended(at: int) -> Event:
    return event(AttemptEnded, at, cycle=0, outcome=Outcome.COMPLETED)


def _observed(store: Store, project_id: int, to_us: int) -> AttemptValues:
    with store.reading() as conn:
        observed = observe(conn, project_id, to_us, 3, Plan())
    return observed.durations[STEP]


def test_steps_of_a_day_are_known_when_it_or_the_attempt_is_over(
    store: Store, project_id: int
) -> None:
    """From 21 h to 5 h: six half hours of one day and ten of the next."""
    job = list(_steps(NOON + 9 * HOUR, 8, 1000))
    store_job(store, project_id, "job", [*job, _ended(MIDNIGHT + 5 * HOUR)])

    values = _observed(store, project_id, MIDNIGHT + 12 * HOUR)
    assert values.known_us.tolist() == [MIDNIGHT - 1, MIDNIGHT + 5 * HOUR]
    assert values.us.tolist() == [SECOND, SECOND]
    # The report at midnight counts for the day that it begins.
    assert values.spent_us.tolist() == [150 * 60 * SECOND, 330 * 60 * SECOND]
    assert len(_observed(store, project_id, MIDNIGHT).us) == 1


def test_of_a_running_attempt_the_day_that_goes_on_is_not_known(
    store: Store, project_id: int
) -> None:
    key = JobKey(project_id, "runs")
    deliver(store, key, list(_steps(NOON + 9 * HOUR, 8, 1000)))
    refreshed(store, key, MIDNIGHT + 5 * HOUR)

    assert len(_observed(store, project_id, MIDNIGHT + 5 * HOUR).us) == 1


def test_a_few_windows_are_no_day(store: Store, project_id: int) -> None:
    for hours, name in ((2, "short"), (3, "long")):
        events = [*_steps(NOON, hours, 1000), _ended(NOON + hours * HOUR)]
        store_job(store, project_id, name, events)

    assert len(_observed(store, project_id, MIDNIGHT).us) == 1


def test_a_setting_is_accelerators_and_tokens_a_step(store: Store, project_id: int) -> None:
    """Twelve and eight accelerators are of one size, and first starts are as restarts are."""
    settings = [(1000, 8), (2000, 8), (1000, 12), (1001, 8)]
    for place, (tokens, gpus) in enumerate(settings):
        events = [*_steps(NOON, 3, tokens, gpus), _ended(NOON + 3 * HOUR)]
        store_job(store, project_id, f"job-{place}", events)

    first, *others = _observed(store, project_id, MIDNIGHT).stratum.tolist()
    assert [stratum == first for stratum in others] == [False, False, True]
    assert len(np.unique(others)) == 3


def _compiled(at: int, cache: str | None) -> Iterator[Event]:
    yield event(AttemptStarted, at, gpus=8)
    facts = {} if cache is None else {"compile_cache": cache}
    end = at + 20 * SECOND
    yield event(SpanOver, end, start=at, phase=Phase.PT2_COMPILE, attributes=facts)
    yield event(PhaseStarted, end, phase=Phase.TRAIN_LOOP)
    yield event(Progress, end + HOUR, step=1)


def test_a_start_missed_the_cache_of_its_compiles_or_did_not_ask_it(
    store: Store, project_id: int
) -> None:
    """Compiles are compared within the state of their cache."""
    states = ("cold", "warm", "mixed", "warm", "disabled", None)
    for place, cache in enumerate(states):
        store_job(store, project_id, f"job-{place}", list(_compiled(NOON + place * SECOND, cache)))
    with store.reading() as conn:
        observed = observe(conn, project_id, MIDNIGHT, 3, Plan())

    missed = observed.durations[MISSES]
    assert missed.us.tolist() == [1, 0, 1, 0]
    assert missed.spent_us.tolist() == [20 * SECOND] * 4
    assert len(set(missed.stratum.tolist())) == 1

    cold, warm, mixed, again, *others = observed.durations[COMPILE].stratum.tolist()
    assert warm == again
    assert len({cold, warm, mixed, *others}) == 5


def test_one_subject_is_read_as_among_all(store: Store, project_id: int) -> None:
    """Of every kind: phases, stages, saves, starts, recoveries, steps, unsaved time."""
    calm = calm_job(NOON, initialising=3, compiling=12, training=90, publishing=10)
    saved = NOON + 22 * MINUTE
    save = event(SpanOver, saved, start=saved - 2 * MINUTE, phase=Phase.CHECKPOINT_BLOCKING)
    store_job(store, project_id, "calm", [*calm, save])
    store_job(store, project_id, "failing", failing_job(NOON + HOUR))
    store_job(store, project_id, "stepping", list(_steps(NOON, 8, 1000)))
    span = (NOON - HOUR, NOON + 24 * HOUR)

    with store.reading() as conn:
        jobs = dict(observations.jobs(conn, project_id, span))
        attempts = list(observations.attempts(conn, project_id, span))
        among_all = list(completed(conn, project_id, span, jobs, attempts))
        by_subject = {
            subject: list(completed_of(conn, project_id, span, jobs, attempts, subject))
            for subject in {value.subject for value in among_all}
        }

    assert {subject.metric for subject in by_subject} >= {
        Metric.PHASE_SECONDS,
        Metric.STAGE_SECONDS,
        Metric.CHECKPOINT_BLOCKING_SECONDS,
        Metric.TIME_TO_START_SECONDS,
        Metric.STEP_SECONDS,
        Metric.UNSAVED_SECONDS,
    }
    for subject, values in by_subject.items():
        assert sorted(values) == sorted(each for each in among_all if each.subject == subject)
