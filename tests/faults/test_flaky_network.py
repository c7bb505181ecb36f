"""A network that resets, cuts off, delays and answers itself: all arrives, and counts once."""

from pathlib import Path

import pytest
from sqlalchemy import func, select

from ett_service.client.sending.backlog import adopted, spools
from ett_service.client.sending.courier import Courier
from ett_service.client.sending.delivery import Fate, Target
from ett_service.storage.engine.store import open_for_reading
from ett_service.storage.schema import event
from tests.builders.servers.ett import serving
from tests.builders.servers.proxy import Fault, Proxy, proxying
from tests.builders.spools import leave_spool
from tests.builders.tally import Tally

WEIGHTS = {
    Fault.RESET_BEFORE: 15,
    Fault.RESET_AFTER: 15,
    Fault.HALF: 10,
    Fault.HTML: 10,
    Fault.DELAY: 10,
    Fault.NONE: 40,
}


def drain(directory: Path, proxy: Proxy, key: str, events: int) -> tuple[Courier, int]:
    """Send a spool, whatever comes in between; return what of HTML counted as acknowledgement."""
    believed = 0
    with adopted(directory) as backlog:
        assert backlog is not None
        courier = Courier(Target(proxy.url, key), backlog)
        while (verdict := courier.carry_one(events)) is not None:
            believed += verdict.fate is Fate.SETTLED and proxy.last is Fault.HTML
        backlog.discard()
    return courier, believed


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("rounds", "a_batch"), [(40, 50), pytest.param(None, 500, marks=pytest.mark.long, id="long")]
)
def test_nothing_is_lost_or_counted_twice_on_a_flaky_network(
    database_url: str,
    tmp_path: Path,
    rounds: int | None,
    a_batch: int,
    tally: Tally,
) -> None:
    rounds = rounds or tally.share(10)
    draw = tally.draw
    ids = leave_spool(tmp_path / "spool", rounds * a_batch)
    (directory,) = spools(tmp_path / "spool")
    with (
        serving(database_url, tmp_path) as server,
        proxying(
            server.url, lambda: draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        ) as proxy,
    ):
        courier, believed = drain(directory, proxy, server.key, a_batch)
    store = open_for_reading(database_url)
    try:
        with store.reading() as conn:
            stored = conn.execute(select(func.count(), func.count(event.c.id.distinct()))).one()
    finally:
        store.close()
    spoiled = proxy.faults.total() - proxy.faults[Fault.NONE]
    tally.add(acknowledged=courier.tally.settled, absorbed=courier.tally.duplicate, others=spoiled)
    assert believed == 0
    tally.require_none(lost=len(ids) - stored[1], double_counted=stored[0] - stored[1])
    assert courier.tally.accepted + courier.tally.duplicate == len(ids)
    assert courier.tally.duplicate > 0
