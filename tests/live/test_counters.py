"""Counters go up and never down, whatever comes late, is corrected or starts again."""


import pytest

from tests.live import page
from tests.live.conftest import Live, send, settled

pytestmark = pytest.mark.xdist_group("live")


def test_a_restart_loses_nothing_of_what_was_counted(live: Live) -> None:
    send(live.server, list(live.running()))
    settled(live.server)
    before = page.read(live.server.url)
    live.server.stop()
    live.server.start()
    settled(live.server)
    after = page.read(live.server.url)
    fleets = [series for series in before if series[0] in page.counted()]
    assert len(fleets) > 1000
    assert {s: after.get(s) for s in fleets} == {s: before[s] for s in fleets}
