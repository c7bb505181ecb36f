"""A network that resets, cuts off, delays and answers itself: all arrives, and counts once."""

import logging
import random
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

log = logging.getLogger(__name__)

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
    pytestconfig: pytest.Config,
) -> None:
    rounds = rounds or 10 * pytestconfig.getoption("--rounds")
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
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
    faults = {fault.name: count for fault, count in sorted(proxy.faults.items(), key=str)}
    log.warning(
        "seed %d: acked %d, faults %s, lost %d, duplicates absorbed %d, double counted %d",
        *(seed, courier.tally.settled, faults, len(ids) - stored[1]),
        *(courier.tally.duplicate, stored[0] - stored[1]),
    )
    assert believed == 0
    assert tuple(stored) == (len(ids), len(ids))
    assert courier.tally.accepted + courier.tally.duplicate == len(ids)
    assert courier.tally.duplicate > 0
