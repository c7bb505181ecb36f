"""What a fold reads of a job: alone or in a batch, and only clocks that are wrong."""

from ett_service.core.ledger.attempts.attempts import TOLERANCE_US
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobBatch, JobKey
from ett_service.storage.record.events import JobRecord, job_record, job_records
from tests.builders.clock import HOUR, NOON
from tests.builders.ledgers import deliver, marks, running_job
from tests.builders.record import progress


def test_offsets_that_the_fold_would_leave_alone_are_left_out(
    store: Store, project_id: int
) -> None:
    key, other = JobKey(project_id, "llm-70b"), JobKey(project_id, "llm-7b")
    offsets = {
        "right": 0,
        "ahead, as far as is tolerated": -TOLERANCE_US,
        "behind, as far as is tolerated": TOLERANCE_US,
        "ahead": -TOLERANCE_US - 1,
        "behind": TOLERANCE_US + 1,
    }
    deliver(store, key, [], offsets)
    deliver(store, other, [], {"ahead": -2 * TOLERANCE_US})

    with store.reading() as conn:
        record = job_record(conn, key)

    assert record.clock_offsets == {"ahead": -TOLERANCE_US - 1, "behind": TOLERANCE_US + 1}


def test_a_batch_is_read_as_each_of_its_jobs_is(store: Store, project_id: int) -> None:
    keys = [JobKey(project_id, name) for name in ("llm-70b", "llm-7b", "silent")]
    for place, key in enumerate(keys[:2]):
        deliver(store, key, running_job()[place:], {"ahead": -2 * TOLERANCE_US})
        deliver(store, key, [progress(60, NOON + HOUR)])
    deliver(store, keys[2], [])

    with store.reading() as conn:
        alone = [job_record(conn, key) for key in keys]
        batch = JobBatch(project_id, [key.job for key in keys])
        together = list(job_records(conn, batch))

    assert [in_order(record) for record in together] == [in_order(record) for record in alone]


def in_order(record: JobRecord) -> JobRecord:
    return record._replace(events=sorted(record.events, key=lambda event: event.id))


def test_of_some_batches_only_their_events_are_read(store: Store, project_id: int) -> None:
    key = JobKey(project_id, "llm-70b")
    deliver(store, key, running_job())
    first = set(marks(store, key))
    deliver(store, key, [progress(60, NOON + HOUR)])

    fresh = set(marks(store, key)) - first
    with store.reading() as conn:
        record = job_record(conn, key, fresh)
        nothing = job_record(conn, key, [])

    assert [event.at for event in record.events] == [NOON + HOUR]
    assert nothing.events == []
