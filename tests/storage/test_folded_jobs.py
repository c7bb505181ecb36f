"""A ledger is read back as it was written, whatever stood there before, and however it is known."""

import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from ett_service.core.events import PhaseStarted
from ett_service.core.ledger.fold import fold
from ett_service.core.ledger.results import JobLedger
from ett_service.core.words import Category, Phase
from ett_service.storage.engine.statements import Values
from ett_service.storage.engine.store import Store
from ett_service.storage.folded_jobs import (
    LEDGER_TABLES,
    JobChanges,
    JobToFold,
    LedgerRows,
    PreviousLedger,
    StoredLedger,
    claim,
    claim_as_read,
    existing_rows,
    look_at,
)
from ett_service.storage.jobs import ledgers
from ett_service.storage.jobs.ledgers import Head
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobBatch, JobKey
from ett_service.storage.record.events import JobRecord, job_record
from tests.builders.clock import HOUR, MINUTE, NOON, RECEIVED_AT
from tests.builders.drawn.timelines import Timeline, timelines
from tests.builders.ledgers import deliver, marks, refreshed, running_job, stored
from tests.builders.record import event, progress

_names = (f"job-{number}" for number in itertools.count())

AHEAD = -3_600_000_000


def head(revision: int) -> Head:
    return Head(revision, formula_version=1, event_count=0, folded_us=NOON, due_us=None)


def ledger_of(timeline: Timeline) -> JobLedger:
    whole = fold(timeline.events, timeline.offsets, timeline.as_of, timeline.limits)
    return replace(whole, waits=(), owned_waits=(), work=())


def changes_to(key: JobKey, ledger: JobLedger, written: Head, before: StoredLedger) -> JobChanges:
    changes = JobChanges(key.project_id)
    changes.compare_ledger(key, ledger, written, before)
    return changes


def write(
    store: Store, key: JobKey, ledger: JobLedger, written: Head, before: StoredLedger
) -> None:
    changes = changes_to(key, ledger, written, before)
    store.write(lambda conn: changes.write(conn, {}, NOON))


def rows_of(store: Store, key: JobKey) -> LedgerRows:
    with store.reading() as conn:
        batch = JobBatch(key.project_id, [key.job])
        return LedgerRows(existing_rows(conn, LEDGER_TABLES, batch))


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(first=timelines, second=timelines, third=timelines)
def test_what_is_read_is_what_was_written(
    store: Store, project_id: int, first: Timeline, second: Timeline, third: Timeline
) -> None:
    key = JobKey(project_id, next(_names))
    deliver(store, key, [])
    ledger, other, last = ledger_of(first), ledger_of(second), ledger_of(third)

    write(store, key, ledger, head(1), LedgerRows())
    assert stored(store, key) == ledger
    write(store, key, other, head(2), PreviousLedger(ledger, None))
    assert stored(store, key) == other
    write(store, key, last, head(3), rows_of(store, key))
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
    write(store, key, ledger, head(1), LedgerRows())
    stalled = [segment._replace(category=Category.STALLED) for segment in ledger.segments]
    later = replace(ledger, segments=tuple(stalled[:-1]))
    change = ledger.segments[2].start_at

    write(store, key, later, head(2), PreviousLedger(ledger, change))

    with store.reading() as conn:
        assert ledgers.segments(conn, *key) == [*ledger.segments[:2], *stalled[2:-1]]


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(before=timelines, after=timelines)
def test_the_same_is_written_whether_the_ledger_before_is_known_or_read(
    store: Store, project_id: int, before: Timeline, after: Timeline
) -> None:
    key = JobKey(project_id, next(_names))
    deliver(store, key, [])
    ledger, other = ledger_of(before), ledger_of(after)
    write(store, key, ledger, head(1), LedgerRows())

    read = changes_to(key, other, head(2), rows_of(store, key)).ledgers
    given = changes_to(key, other, head(2), PreviousLedger(ledger, None)).ledgers

    assert rows_in(read.put, read.new) == rows_in(given.put, given.new)
    assert rows_in(read.gone) == rows_in(given.gone)


def rows_in(*changes: Mapping[str, list[Values]]) -> set[tuple[str, Values]]:
    return {(table, row) for each in changes for table, rows in each.items() for row in rows}


def in_order(record: JobRecord) -> JobRecord:
    return record._replace(events=sorted(record.events, key=lambda event: event.id))


def test_a_job_is_read_as_it_is_piece_by_piece(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, running_job(), {"ahead": AHEAD, "right": 0})
    refreshed(store, key, NOON)
    deliver(store, key, [progress(60, NOON + HOUR)])

    with store.reading() as conn:
        whole = look_at(conn, key, whole=True)
    assert whole is not None
    with store.reading() as conn:
        assert in_order(whole.record) == in_order(job_record(conn, key))
    assert len(whole.marks.batches) == 1
    assert whole.born_us == RECEIVED_AT
    assert whole.head is not None
    assert whole.head.revision == 1


def test_a_claim_has_what_the_fold_does_not_know(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, running_job(), {"ahead": AHEAD})
    store.write(lambda conn: dirty_marks.take(conn, key))
    deliver(store, key, [progress(60, NOON + HOUR)])
    store.write(lambda conn: dirty_marks.mark(conn, key, NOON))
    with store.reading() as conn:
        seen = look_at(conn, key, whole=False)

    claimed = store.write(lambda conn: claim(conn, key, whole=False))

    assert claimed is not None
    assert claimed == seen
    assert [event.at for event in claimed.record.events] == [NOON + HOUR]
    assert claimed.record.clock_offsets == {"ahead": AHEAD}
    assert (claimed.born_us, claimed.head, len(claimed.marks.batches)) == (RECEIVED_AT, None, 2)
    assert marks(store, key) == []


def test_a_claim_of_a_job_as_it_was_read_takes_the_marks_that_were_read(
    store: Store, project_id: int
) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, running_job())
    with store.reading() as conn:
        job = look_at(conn, key, whole=True)
    assert job is not None
    store.write(lambda conn: dirty_marks.mark(conn, key, NOON))
    later = set(marks(store, key)) - set(job.marks.batches)

    assert store.write(lambda conn: claim_as_read(conn, key, job))

    assert set(marks(store, key)) == later
    refreshed(store, key, NOON + HOUR)
    assert not store.write(lambda conn: claim_as_read(conn, key, job))


def test_a_claim_without_a_fold_has_all_events(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, running_job())
    store.write(lambda conn: dirty_marks.take(conn, key))

    claimed = store.write(lambda conn: claim(conn, key, whole=True))

    assert claimed is not None
    assert len(claimed.record.events) == len(running_job())
    assert claimed.marks.batches == []


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("whole", [True, False])
def test_a_job_that_another_holds_keeps_its_marks(
    store: Store, project_id: int, *, whole: bool
) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, running_job())

    def claim_beside(_: object) -> JobToFold | None:
        return store.write(lambda conn: claim(conn, key, whole=whole))

    held = store.write(lambda conn: (dirty_marks.lock(conn, key), claim_beside(conn)))

    assert held == (RECEIVED_AT, None)
    assert len(marks(store, key)) == 1


@pytest.mark.parametrize("whole", [True, False])
def test_a_job_that_is_not_there_cannot_be_claimed(
    store: Store, project_id: int, *, whole: bool
) -> None:
    key = JobKey(project_id, "gone")
    assert store.write(lambda conn: claim(conn, key, whole=whole)) is None
    with store.reading() as conn:
        assert look_at(conn, key, whole=whole) is None
