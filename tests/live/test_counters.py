"""Counters go up and never down, whatever comes late, is corrected or starts again."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.builders.clock import MINUTE
from tests.builders.jobs import failing_job, wire_event
from tests.builders.servers.ett import Server
from tests.live import page
from tests.live.conftest import Live
from tests.live.serving import ask, send, settled

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("live"), pytest.mark.timeout(1800)]

_HELD_UP = 6
"""Minutes that the loop of the job ``held-up`` is thought to stand still for a save."""


@dataclass(frozen=True)
class Quiet:
    """The fleet after all its jobs have ended: the page before and after a restart."""

    live: Live
    before: Mapping[str, float]
    after: Mapping[str, float]


@pytest.fixture(scope="module")
def quiet(live: Live) -> Quiet:
    """End what runs, send jobs that ended long ago, and start the server again."""
    send(live.server, list(live.endings()))
    for job in ("judged", "kept-out", "deleted", "moved"):
        send(live.server, failing_job(job, model=job))
    send(live.server, _held_up())
    settled(live.server)
    before = page.read(live.server.url)
    live.prometheus.has_scraped()
    live.server.stop()
    live.server.start()
    settled(live.server)
    return Quiet(live, before, page.read(live.server.url))


def _held_up() -> list[dict[str, object]]:
    """Send a job that begins a save and never reports its end."""
    job = "held-up"
    return [
        wire_event("job", 0, job, model=job, cluster="a", gpus=8),
        wire_event("attempt_started", 0, job),
        wire_event("phase_started", 0, job, phase="train_loop"),
        wire_event("phase_started", 10, job, phase="checkpoint_blocking"),
        wire_event("attempt_ended", 10 + _HELD_UP, job, outcome="completed"),
    ]


def _correct(server: Server) -> None:
    """Let late facts and people take time, a failure and whole jobs back."""
    send(server, [wire_event("progress", 11, "held-up", step=1)])
    send(server, [wire_event("job", 100, "moved", model="elsewhere")])
    why = {"why": "a drill"}
    ask(server, "PUT", "/v1/jobs/judged/attempts/0/verdict", why | {"cause": "network"})
    ask(server, "PUT", "/v1/jobs/kept-out/exclusion", why)
    ask(server, "DELETE", "/v1/jobs/deleted")


def _fleets(samples: Mapping[str, float]) -> dict[str, float]:
    return page.of(samples, page.counted())


def test_a_restart_takes_nothing_from_what_was_counted(quiet: Quiet) -> None:
    before, after = _fleets(quiet.before), _fleets(quiet.after)
    assert sum(value > 0 for value in before.values()) > 500
    assert after == before


def test_no_counter_goes_down_though_a_late_fact_takes_time_from_a_phase(quiet: Quiet) -> None:
    server, prometheus = quiet.live.server, quiet.live.prometheus
    excess = quiet.after["ett_mark_excess_seconds"]
    _correct(server)
    settled(server)
    held_back_s = (_HELD_UP - 1) * MINUTE / 1_000_000
    now = page.read(server.url)
    prometheus.has_scraped()
    assert now["ett_mark_excess_seconds"] == pytest.approx(excess + held_back_s)
    fallen = {
        s: (v, now.get(s)) for s, v in _fleets(quiet.after).items() if not now.get(s, -1) >= v
    }
    assert fallen == {}
    since_s = int(time.time() - quiet.live.began_us / 1_000_000)
    seen = 0
    for name in page.counted():
        resets = prometheus.query(f"resets({name}[{since_s}s])")
        assert [sample for sample in resets if sample.value] == []
        seen += len(resets)
    assert seen >= len(_fleets(quiet.after))
