"""The days before the first scrape lie in blocks, as they would have been scraped."""

from collections.abc import Iterable

import pytest

from ett_service.demo.calendar import WireEvent
from ett_service.demo.generator import Fleet
from tests.builders.clock import instant
from tests.live import past
from tests.live.compressed import Clock
from tests.live.conftest import LIVE_FROM_US, Live

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("live"), pytest.mark.timeout(1800)]

_HOUR_S = 3600
_BLOCK_S = 2 * _HOUR_S
_STARTED = "sum(last_over_time(ett_attempts_started_total[2h]))"
_RATIO = "cluster:ett_effective_per_weighted_seconds:ratio_rate1d"


def test_attempts_of_the_past_are_counted_when_they_began(live: Live, fleet: Fleet) -> None:
    begins = _begins(past.events(fleet, Clock(LIVE_FROM_US, live.past_until_us, faster=1)))
    until_s = live.past_until_us // 1_000_000
    for ago_s in (0, 24 * _HOUR_S):
        at_s = (until_s - ago_s) // _HOUR_S * _HOUR_S
        [sample] = live.prometheus.query(_STARTED, at_s)
        begun = sum(begin < at_s * 1_000_000 for begin in begins)
        assert begun > 10
        assert sample.value == begun


def _begins(events: Iterable[WireEvent]) -> list[int]:
    """Return the earliest instant that each attempt's events name, the queue aside."""
    begin_of: dict[tuple[object, ...], int] = {}
    for event in events:
        if event["type"] in ("job", "job_ended") or event.get("phase") == "queued":
            continue
        key = (event["job"], event.get("launch"), event.get("attempt"), event.get("cycle"))
        begin = instant(event["start"] if "start" in event else event["at"])
        begin_of[key] = min(begin, begin_of.get(key, begin))
    return list(begin_of.values())


@pytest.mark.long
def test_rules_know_the_past_once_they_were_computed_for_it(live: Live) -> None:
    # In the midst of a block: between two blocks promtool leaves out an interval.
    at_s = live.past_until_us // 1_000_000 // _BLOCK_S * _BLOCK_S - 24 * _HOUR_S + _BLOCK_S // 2
    samples = live.prometheus.query(_RATIO, at_s)
    assert {sample.labels["cluster"] for sample in samples} == {"alder", "birch", "cedar"}
    assert all(0.5 < sample.value < 1 for sample in samples)
