"""What a fold knows of a job before it begins, and that only one fold claims it."""

import pytest

from ett_service.storage.engine.store import Store
from ett_service.storage.jobs.claims import ClaimedJob, claim, read_whole
from ett_service.storage.record import dirty_marks
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.events import JobRecord, job_record
from tests.builders.clock import HOUR, NOON, RECEIVED_AT
from tests.builders.ledgers import deliver, refreshed, running_job
from tests.builders.record import progress

AHEAD = -3_600_000_000


def in_order(record: JobRecord) -> JobRecord:
    return record._replace(events=sorted(record.events, key=lambda event: event.id))


def test_a_job_is_read_as_it_is_piece_by_piece(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, running_job(), {"ahead": AHEAD, "right": 0})
    refreshed(store, key, NOON)
    deliver(store, key, [progress(60, NOON + HOUR)])

    with store.reading() as conn:
        whole = read_whole(conn, key)
    with store.reading() as conn:
        assert in_order(whole.record) == in_order(job_record(conn, key))
        assert whole.batches == dirty_marks.batches(conn, key)
    assert whole.born_us == RECEIVED_AT
    assert whole.head is not None
    assert whole.head.revision == 1


def test_a_claim_has_what_the_fold_does_not_know(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, running_job(), {"ahead": AHEAD})
    with store.reading() as conn:
        folded = read_whole(conn, key).batches
    deliver(store, key, [progress(60, NOON + HOUR)])
    store.write(lambda conn: dirty_marks.mark(conn, key, NOON))

    claimed = store.write(lambda conn: claim(conn, key, folded))

    assert claimed is not None
    assert [event.at for event in claimed.record.events] == [NOON + HOUR]
    assert claimed.record.clock_offsets == {"ahead": AHEAD}
    assert (claimed.born_us, claimed.head, len(claimed.marks.batches)) == (RECEIVED_AT, None, 3)
    with store.reading() as conn:
        assert dirty_marks.batches(conn, key) == []


def test_a_claim_without_a_fold_has_all_events(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, running_job())
    store.write(lambda conn: dirty_marks.take(conn, key))

    claimed = store.write(lambda conn: claim(conn, key, None))

    assert claimed is not None
    assert len(claimed.record.events) == len(running_job())
    assert claimed.marks.batches == []


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("folded", [[], None])
def test_a_job_that_another_holds_keeps_its_marks(
    store: Store, project_id: int, folded: list[int] | None
) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, running_job())

    def claim_beside(_: object) -> ClaimedJob | None:
        return store.write(lambda conn: claim(conn, key, folded))

    held = store.write(lambda conn: (dirty_marks.lock(conn, key), claim_beside(conn)))

    assert held == (RECEIVED_AT, None)
    with store.reading() as conn:
        assert len(dirty_marks.batches(conn, key)) == 1


@pytest.mark.parametrize("folded", [[], None])
def test_a_job_that_is_not_there_cannot_be_claimed(
    store: Store, project_id: int, folded: list[int] | None
) -> None:
    key = JobKey(project_id, "gone")
    assert store.write(lambda conn: claim(conn, key, folded)) is None
    with store.reading() as conn:
        assert read_whole(conn, key).born_us is None
