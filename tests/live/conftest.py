"""A fleet that lives 60 times faster, and services in trouble, watched by the real programs."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.demo.calendar import WireEvent
from ett_service.demo.generator import Fleet, generate
from tests.builders.clock import instant
from tests.builders.servers.ett import Server
from tests.builders.servers.prometheus import Prometheus
from tests.live import past, trouble
from tests.live.alerting import Alert, Alertmanager, Receiver
from tests.live.compressed import FASTER, Clock, DueEvent, Player, tape
from tests.live.serving import send, serving, settled, shows
from tests.live.worsened import worsened

LIVE_S = 100
FLEET_SEED = 16
FLEET_ENDS_US = instant("2026-03-04T14:20:00Z")
"""In the minutes before, jobs start, fail, are preempted, recover, save, stall and end."""
LIVE_FROM_US = FLEET_ENDS_US - FASTER * LIVE_S * SECOND_US

_PATIENCE_S = 300

_begun: list[ExitStack] = []


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the programs with the last live test: until the session ends they would take a core."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        while _begun:
            _begun.pop().close()


@dataclass
class Live:
    """The fleet as it is sent: what was before *began_us* at once, then all as it happens.

    Up to *past_until_us* lie blocks of other jobs of it, in its own time.
    """

    server: Server
    prometheus: Prometheus
    past_until_us: int
    tape: list[DueEvent]
    began_us: int
    ended_us: int
    looked_us: int  #: when Prometheus knew of all of it

    def endings(self) -> Iterator[WireEvent]:
        """Return an end for each job that has none."""
        events = [due.event for due in self.tape if due.due_us <= self.ended_us]
        over = {event["job"] for event in events if event["type"] == "job_ended"}
        ending = {"type": "job_ended", "at": rfc3339(self.ended_us), "outcome": "completed"}
        return (ending | {"job": job} for job in {event["job"] for event in events} - over)


@dataclass
class Troubled:
    """Services in trouble, and who is called."""

    receiver: Receiver
    prometheus: Prometheus
    without_worker: Server

    def hears(self, name: str, stack: str, **labels: str) -> Alert:
        """Wait until an alert reaches the receiver, and return it."""
        return self.receiver.hears(name, _PATIENCE_S, stack=stack, **labels)


@pytest.fixture(scope="session")
def fleet() -> Fleet:
    """Return days of the demo's fleet, always the same."""
    return generate(seed=FLEET_SEED, days=14, end_us=FLEET_ENDS_US)


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    """Let trouble begin; what comes of it arrives while the fleet is played."""
    with ExitStack() as stack:
        receiver = Receiver()
        stack.callback(receiver.stop)
        manager = Alertmanager(tmp_path_factory.mktemp("alertmanager"), receiver)
        stack.callback(manager.stop)
        manager.start()
        lagging = stack.enter_context(trouble.without_worker(tmp_path_factory.mktemp("lagging")))
        server = stack.enter_context(
            trouble.unreachable_receiver(tmp_path_factory.mktemp("troubled"))
        )
        watch = trouble.Watch(tmp_path_factory.mktemp("watch"), manager.address, stack)
        watch.begin("without-worker", lagging)
        send(server, trouble.before(time.time_ns() // 1000), history=True)
        send(server, worsened(time.time_ns() // 1000), history=True)
        shows(server, "ett_phase_p99_seconds")
        prometheus = watch.begin("troubled", server)
        prometheus.has_scraped()
        tape = list(trouble.tape(time.time_ns() // 1000))
        player = Player(tape, lambda events: trouble.send_with_refusal(server, events))
        stack.callback(player.stop)
        player.start()
        yield Troubled(receiver, prometheus, lagging)


@pytest.fixture(scope="session")
def live(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Send the fleet's last minutes as they happen; the days before lie in blocks."""
    with ExitStack() as stack:
        _begun.append(stack)
        server = stack.enter_context(serving(tmp_path_factory.mktemp("served")))
        folder = tmp_path_factory.mktemp("prometheus")
        rules = trouble.rules(folder)
        prometheus = Prometheus(folder, targets=[server.url], rules=rules)
        stack.callback(prometheus.stop)
        past_until_us = _make_past(server, prometheus, fleet)
        began_us = time.time_ns() // 1000
        ended_us = began_us + LIVE_S * SECOND_US
        events = tape(fleet, Clock(LIVE_FROM_US, began_us), ended_us)
        send(server, [event.event for event in events if event.due_us <= began_us])
        settled(server)
        shows(server, "ett_window_ratio")
        prometheus.start()
        to_come = [event for event in events if event.due_us > began_us]
        player = Player(to_come, lambda events: send(server, events))
        stack.callback(player.stop)
        player.start()
        player.finish()
        settled(server)
        for _ in range(2):  # between two scrapes the rules are computed
            prometheus.has_scraped()
        looked_us = time.time_ns() // 1000
        yield Live(server, prometheus, past_until_us, events, began_us, ended_us, looked_us)


def _make_past(server: Server, prometheus: Prometheus, fleet: Fleet) -> int:
    """Send what was before as history, make blocks of it up to now, and return that instant."""
    until_us = time.time_ns() // 1000
    past.send_all(server, fleet, Clock(LIVE_FROM_US, until_us, faster=1))
    settled(server)
    past.export(server, prometheus, until_us, "15m")
    past.record(prometheus, until_us // SECOND_US)
    return until_us
