"""One number, wherever it is read: the API, the view, a gauge and sums of counters."""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from ett_service.core.intervals import DAY_US, SECOND_US, rfc3339
from ett_service.demo.calendar import WireEvent
from ett_service.demo.generator import Fleet
from tests.builders.clock import instant
from tests.builders.servers.prometheus import Prometheus, Sample
from tests.builders.servers.waiting import wait_for
from tests.live.compressed import Clock
from tests.live.conftest import FLEET_ENDS_US, Live
from tests.live.serving import ask, send, settled

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("live"), pytest.mark.timeout(1800)]

CLUSTER = "quiet"
JOBS = 60

#: Marks are exact where a job is sent whole, after its end.
ETT_OF_COUNTERS = """
  (
      sum by (cohort) (max without (instance, pod)
        (ett_phase_weighted_seconds_total{{cluster="{cluster}", phase="train_loop"}}))
    -
      sum by (cohort) (max without (instance, pod)
        (ett_deducted_weighted_seconds_total{{cluster="{cluster}", phase="train_loop"}}))
  )
/
  sum by (cohort) (max without (instance, pod)
    (ett_phase_weighted_seconds_total{{cluster="{cluster}"}}))
"""

ETT_OF_VIEW = """
SELECT model, SUM(effective_training_weighted_seconds) / SUM(weighted_seconds)
FROM ett_v_rollup_hourly WHERE cluster = ? AND NOT excluded GROUP BY model
"""


RECENT_US = FLEET_ENDS_US - 3 * DAY_US
"""Whatever began since then lies in the window of 7 days, however long the fleet has lived."""


@pytest.fixture(scope="module")
def quiet(live: Live, fleet: Fleet) -> Mapping[str, float]:
    """Send jobs that have ended, and return the ETT% of each model as the API has it."""
    ended = [story for story in fleet.stories if story.ended_at is not None]
    recent = [story for story in ended if instant(story.events[0]["at"]) > RECENT_US][:JOBS]
    events = [event for story in recent for event in story.events]
    send(live.server, list(_moved(events)))
    settled(live.server)
    live.prometheus.has_scraped()
    since = rfc3339(time.time_ns() // 1000 - 7 * DAY_US)
    question = f"where=cluster:{CLUSTER}&group_by=model&from={since}&limit=100"
    answer = ask(live.server, "GET", f"/v1/fleet/summary?{question}")
    return {group["group"]["model"]: group["ett_ratio"] for group in answer["groups"]}


def _moved(events: Sequence[WireEvent]) -> Iterator[WireEvent]:
    """Return the events in a cluster of their own, so late that the last is of a minute ago."""
    last_us = max(instant(event["at"]) for event in events)
    clock = Clock(last_us, time.time_ns() // 1000 - 60 * SECOND_US, faster=1)
    for event in events:
        cluster = {"cluster": CLUSTER} if event["type"] == "job" else {}
        yield {**clock.moved(event).event, "job": f"{CLUSTER}-{event['job']}", **cluster}


def _by_cohort(samples: Iterable[Sample]) -> dict[str, float]:
    return {sample.labels["cohort"]: sample.value for sample in samples}


def _gauges(prometheus: Prometheus) -> dict[str, float]:
    selector = f'{{cluster="{CLUSTER}", window="7d", weighting="accelerators"}}'
    return _by_cohort(prometheus.query(f"max without (instance, pod) (ett_window_ratio{selector})"))


def test_counters_in_promql_say_what_the_api_says(live: Live, quiet: Mapping[str, float]) -> None:
    assert len(quiet) >= 10
    of_counters = _by_cohort(live.prometheus.query(ETT_OF_COUNTERS.format(cluster=CLUSTER)))
    assert of_counters == pytest.approx(dict(quiet), rel=0, abs=1e-9)


def test_the_window_gauge_says_what_the_api_says(live: Live, quiet: Mapping[str, float]) -> None:
    agreed = pytest.approx(dict(quiet), rel=0, abs=1e-9)
    wait_for(lambda: _gauges(live.prometheus) == agreed, lambda: str(_gauges(live.prometheus)))


def test_the_view_says_what_the_api_says(live: Live, quiet: Mapping[str, float]) -> None:
    path = live.server.folder / "ett.db"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as conn:
        of_view = dict(conn.execute(ETT_OF_VIEW, (CLUSTER,)).fetchall())
    conn.close()
    assert of_view == pytest.approx(dict(quiet), rel=0, abs=1e-9)
