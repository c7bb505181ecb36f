"""An id names one fact: what another type says is another fact, however alike it looks."""

import pytest

from ett_service.ingest.accept import Verdicts, accept
from ett_service.ingest.refusals import Code
from ett_service.storage.engine.store import Store
from tests.builders.batches import batch
from tests.builders.clock import NOON
from tests.builders.record import wire

BEGUN = wire("phase_started", phase="train_loop", id="e-1")
ENDED = wire("phase_ended", phase="train_loop", id="e-1")


def accepted(store: Store, project_id: int, *events: dict[str, object]) -> Verdicts:
    sent = batch(*events)
    return store.write(lambda conn: accept(conn, sent, project_id=project_id, now_us=NOON))


@pytest.mark.parametrize("apart", [True, False])
def test_the_same_id_and_members_in_another_type_are_a_conflict(
    store: Store, project_id: int, *, apart: bool
) -> None:
    if apart:
        accepted(store, project_id, BEGUN)
        verdicts = accepted(store, project_id, ENDED)
    else:
        verdicts = accepted(store, project_id, BEGUN, ENDED)

    assert verdicts.duplicate == 0
    assert [error.code for error in verdicts.errors] == [Code.CONFLICT]
