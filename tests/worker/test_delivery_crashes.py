"""A delivery arrives, whoever dies while sending it, and a repeat is the same message."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import socket

import pytest

from ett_service.core.intervals import HOUR_US
from ett_service.storage.engine.store import open_store
from ett_service.storage.receivers.deliveries import DeliveryState
from ett_service.storage.record.keys import create_project
from tests.builders.clock import NOON
from tests.builders.receivers.deliveries import deliveries_in, put
from tests.builders.receivers.listening import Request, receiving, reply
from tests.builders.servers.waiting import PATIENCE_S
from tests.worker.dying import CLAIMED, NEVER, RECORDED, UNRECORDED, Order

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("dying deliverers")
ANSWERING = 4  #: while the receiver is about to answer
POINTS = (CLAIMED, UNRECORDED, RECORDED, ANSWERING)


@pytest.fixture(scope="module")
def program() -> Iterator[subprocess.Popen[str]]:
    """Return what forks children that deliver and die."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.worker.dying"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


class Killer:
    """A receiver that kills its sender, if the test wants that."""

    def __init__(self) -> None:
        self.child = 0
        self._armed = threading.Event()
        self._armed.set()
        self._kills = False

    def arm(self, *, kills: bool) -> None:
        """Kill the next child or not; until it is known who that is, requests wait."""
        self._kills = kills
        self._armed.clear()

    def aim(self, child: int) -> None:
        """Say who the child is."""
        self.child = child
        self._armed.set()

    def answer(self, request: Request, sock: socket) -> None:
        """Answer whoever lives."""
        self._armed.wait(PATIENCE_S)
        if self._kills:
            os.kill(self.child, signal.SIGKILL)
        reply(204)(request, sock)


@dataclass
class Rig:
    """A receiver, and children that deliver to it and die."""

    database_url: str
    receiver_url: str
    killer: Killer
    program: subprocess.Popen[str]

    def deliver(self, now_us: int, dies: int) -> int:
        """Have a child deliver what is due, and return how it ended."""
        assert self.program.stdin
        assert self.program.stdout
        self.killer.arm(kills=dies == ANSWERING)
        own = NEVER if dies == ANSWERING else dies
        order = Order(self.database_url, self.receiver_url, now_us, own)
        self.program.stdin.write(json.dumps(order) + "\n")
        self.program.stdin.flush()
        self.killer.aim(int(self.program.stdout.readline()))
        return int(self.program.stdout.readline())


@pytest.mark.parametrize(
    ("dialect", "rounds"),
    [
        ("sqlite", 20),
        ("postgresql", 8),
        pytest.param("sqlite", None, marks=pytest.mark.long, id="sqlite-long"),
        pytest.param("postgresql", None, marks=pytest.mark.long, id="postgresql-long"),
    ],
    indirect=["dialect"],
)
def test_nothing_is_lost_with_whoever_dies_between_claim_and_record(
    database_url: str,
    rounds: int | None,
    program: subprocess.Popen[str],
    pytestconfig: pytest.Config,
) -> None:
    rounds = rounds or pytestconfig.getoption("--rounds")
    store = open_store(database_url)
    project_id = store.write(lambda conn: create_project(conn, "research", NOON))
    for number in range(rounds):
        put(store, project_id, ["a"], NOON + number * HOUR_US, fingerprint=f"f{number}")
    store.close()
    killer = Killer()
    with receiving(killer.answer) as web:
        rig = Rig(database_url, web.url, killer, program)
        for number in range(rounds):
            ended = rig.deliver(NOON + number * HOUR_US, POINTS[number % len(POINTS)])
            assert ended == -signal.SIGKILL
        assert rig.deliver(NOON + rounds * HOUR_US, NEVER) == 0

    bodies_of: dict[str, set[bytes]] = {}
    for request in web.requests:
        bodies_of.setdefault(request.id, set()).add(request.body)
    store = open_store(database_url)
    assert {delivery.id: delivery.done for delivery in deliveries_in(store)} == dict.fromkeys(
        bodies_of, DeliveryState.SENT
    )
    store.close()
    assert [len(bodies) for bodies in bodies_of.values()] == [1] * rounds
    assert rounds <= len(web.requests) <= 2 * rounds
