"""A ledger is read back as it was written, whatever stood there before."""

import itertools
from dataclasses import replace

from hypothesis import HealthCheck, given, settings

from ett_service.core.events import PhaseStarted
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Phase
from ett_service.storage.engine.store import Store
from ett_service.storage.jobs import ledgers
from ett_service.storage.jobs.ledger_rows import Head
from ett_service.storage.record.dirty_marks import JobKey
from tests.aggregation.deliveries import deliver, stored
from tests.builders import MINUTE, NOON, event
from tests.core.strategies import Timeline, timelines

_names = (f"job-{number}" for number in itertools.count())


def head(revision: int) -> Head:
    return Head(revision, formula_version=1, event_count=0, folded_us=NOON, due_us=None)


def said_by(timeline: Timeline) -> JobLedger:
    whole = fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)
    return replace(whole, waits=(), work=())


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(first=timelines, second=timelines, third=timelines)
def test_what_is_read_is_what_was_written(
    store: Store, project_id: int, first: Timeline, second: Timeline, third: Timeline
) -> None:
    key = JobKey(project_id, next(_names))
    deliver(store, key, [])
    one, other, last = said_by(first), said_by(second), said_by(third)

    store.write(lambda conn: ledgers.replace(conn, key, one, head(1)))
    assert stored(store, key) == one
    store.write(lambda conn: ledgers.replace(conn, key, other, head(2), previous=one))
    assert stored(store, key) == other
    store.write(lambda conn: ledgers.replace(conn, key, last, head(3)))
    assert stored(store, key) == last


def test_segments_before_the_change_are_not_touched(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, [])
    states = (Phase.LAUNCHER_INIT, Phase.TRAIN_LOOP, Phase.EVALUATION, Phase.SHUTDOWN)
    begins = [
        event(PhaseStarted, NOON + place * MINUTE, phase=phase)
        for place, phase in enumerate(states)
    ]
    ledger = fold(begins, {}, NOON + 10 * MINUTE)
    store.write(lambda conn: ledgers.replace(conn, key, ledger, head(1)))
    stalled = [segment._replace(category=Category.STALLED) for segment in ledger.segments]
    later = replace(ledger, segments=tuple(stalled[:-1]))
    change = ledger.segments[2].start_at

    store.write(
        lambda conn: ledgers.replace(
            conn, key, later, head(2), previous=ledger, changed_from=change
        )
    )

    with store.reading() as conn:
        assert ledgers.segments(conn, *key) == [*ledger.segments[:2], *stalled[2:-1]]


def test_a_job_without_a_ledger_has_none(store: Store, project_id: int) -> None:
    with store.reading() as conn:
        assert ledgers.job_ledger(conn, project_id, "never-heard-of") is None
        assert ledgers.segments(conn, project_id, "never-heard-of") == []
        assert ledgers.head(conn, JobKey(project_id, "never-heard-of")) is None
