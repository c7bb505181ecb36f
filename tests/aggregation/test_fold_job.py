"""Jobs are folded everywhere alike: with clocks, verdicts and exclusions."""

import pytest
from sqlalchemy import Connection, insert

from ett_service.aggregation.fold_job import NotForward, fold_all, fold_job
from ett_service.core.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    Exclusion,
    PhaseStarted,
    SpanOver,
)
from ett_service.core.ledger.attempt_results import AttemptKey, FailureVerdict
from ett_service.core.words import Cause, Origin, Outcome, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.record import corrections, events
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.keys import create_key
from ett_service.storage.schema import job_history
from tests.builders.clock import HOUR, MINUTE, NOON, SECOND
from tests.builders.ledgers import deliver, recomputed, refreshed, running_job
from tests.builders.record import event, progress
from tests.builders.rollups import check_rollups

LATER = NOON + 2 * HOUR


@pytest.fixture
def keys(store: Store, project_id: int) -> list[JobKey]:
    """Store two jobs; the second was sent as history."""
    job_keys = [JobKey(project_id, name) for name in ("live", "past")]
    for key in job_keys:
        deliver(store, key, running_job(), {"p": 7_000_000})
    store.write(lambda conn: conn.execute(insert(job_history), job_keys[1]._asdict()))
    return job_keys


def test_only_jobs_sent_as_history_are_folded_unless_all_are_requested(
    store: Store, keys: list[JobKey]
) -> None:
    assert len(list(fold_all(store, LATER, only_history=True))) == 1
    assert len(list(fold_all(store, LATER, only_history=False))) == len(keys)


def test_a_ledger_is_what_the_events_say_with_all_that_is_not_stored(
    store: Store, keys: list[JobKey]
) -> None:
    (stored,) = fold_all(store, LATER, only_history=True)

    assert stored.ledger.segments == recomputed(store, keys[1], LATER).segments
    assert stored.exclusions == ()


def test_verdicts_and_exclusions_stand(store: Store, keys: list[JobKey]) -> None:
    key = keys[1]
    failed = [
        event(AttemptStarted, NOON + HOUR, attempt=1, gpus=8),
        event(AttemptEnded, NOON + HOUR + 1, attempt=1, cycle=0, outcome=Outcome.FAILED),
    ]
    deliver(store, key, failed)
    refreshed(store, key, LATER)
    out = Exclusion(NOON, NOON + 1)

    def correct(conn: Connection) -> None:
        create_key(conn, project="research", name="k", scopes=["write"], now_us=NOON)
        verdict = FailureVerdict(Origin.INFRA, Cause.NETWORK, "a test", "k", NOON)
        assert corrections.attempt_key(conn, key, 1)[0] == AttemptKey("", 1, 0)
        corrections.put_verdict(conn, key, 1, verdict)
        corrections.put_exclusion(conn, key, [out], why="a test", made_by="k", now_us=NOON)

    store.write(correct)

    (stored,) = fold_all(store, LATER, only_history=True)
    assert stored.ledger.attempts[1].cause is Cause.NETWORK
    assert stored.exclusions == (out,)


def test_a_kept_fold_goes_on_to_what_all_events_give(store: Store, keys: list[JobKey]) -> None:
    key = keys[0]
    with store.reading() as conn:
        job_fold = fold_job(events.job_record(conn, key), LATER).fold
        no_batch = events.job_record(conn, key, [])
    later = event(AttemptEnded, LATER, outcome=Outcome.FAILED)
    deliver(store, key, [later])

    folded = fold_job(no_batch._replace(events=[later]), LATER, previous=job_fold)

    with store.reading() as conn:
        whole = fold_job(events.job_record(conn, key), LATER)
    assert folded.fold is job_fold
    assert (folded.ledger, folded.cells()) == (whole.ledger, whole.cells())
    assert folded.counter_sample() == whole.counter_sample()


def span(phase: Phase, start: int, end: int) -> Event:
    return event(SpanOver, end, phase=phase, start=start)


def test_checkpoint_stops_are_counted_once_however_many_folds_there_are(
    store: Store, project_id: int
) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, [event(PhaseStarted, NOON, phase=Phase.TRAIN_LOOP)])
    kept_fold = refreshed(store, key, NOON)
    for end in range(NOON + MINUTE, NOON + 10 * MINUTE, MINUTE):
        stop = span(Phase.CHECKPOINT_BLOCKING, end - SECOND, end)
        deliver(store, key, [stop, progress(1, end + SECOND)])
        kept_fold = refreshed(store, key, end + SECOND, kept_fold)
        check_rollups(store)
    assert kept_fold is not None
    assert kept_fold.stops.sums["checkpoint_blocking_seconds#us"] == 8 * SECOND

    late = span(Phase.CHECKPOINT_BLOCKING, NOON + 150 * SECOND, NOON + 160 * SECOND)
    deliver(store, key, [late])
    kept_fold = refreshed(store, key, NOON + 11 * MINUTE, kept_fold)
    check_rollups(store)

    behind_a_stop = span(Phase.EVALUATION, NOON + 5 * MINUTE, NOON + 5 * MINUTE + SECOND)
    deliver(store, key, [behind_a_stop])
    refreshed(store, key, NOON + 12 * MINUTE, kept_fold)
    check_rollups(store)


def test_a_kept_fold_that_cannot_go_forward_is_refused(store: Store, keys: list[JobKey]) -> None:
    with store.reading() as conn:
        record = events.job_record(conn, keys[0])
    job_fold = fold_job(record, LATER).fold
    other_clocks = record._replace(
        events=[event(AttemptStarted, NOON, attempt=1, producer="p")], clock_offsets={}
    )
    fold_job(other_clocks, LATER, previous=job_fold)

    with pytest.raises(NotForward):
        fold_job(record, LATER, previous=job_fold)
