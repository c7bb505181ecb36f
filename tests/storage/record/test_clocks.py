"""Only clocks that are wrong are told to the fold."""

from ett_service.core.ledger.clock import TOLERANCE_US
from ett_service.storage.engine.store import Store
from ett_service.storage.record.dirty_marks import JobKey
from ett_service.storage.record.events import corrections
from tests.aggregation.deliveries import deliver


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
        found = corrections(conn, key)

    assert found == {"ahead": -TOLERANCE_US - 1, "behind": TOLERANCE_US + 1}
