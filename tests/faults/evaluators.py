"""A program whose children are evaluators, to be paused and killed.

It reads lines of JSON (``Order``) and forks a child for each, which costs less than a new process
with all that it imports. It prints each child's number; children print what they are at.
"""

import gc
import json
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, NoReturn

from sqlalchemy import Connection, text

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.state import StateRules
from ett_service.detection.run import RunResult
from ett_service.detection.sample import Memory, Plan
from ett_service.notifications.formats import FORMATS
from ett_service.notifications.notice import OF_SETTINGS, Receiver
from ett_service.notifications.routing import Directory
from ett_service.storage.engine.errors import StoreInUse
from ett_service.storage.engine.store import Store, open_store
from ett_service.worker.notify import Audience
from ett_service.worker.regressions import DetectionOptions, DetectionThread
from tests.builders.regressions.searches import evaluated
from tests.builders.regressions.stored import finding

BORN, LOOKS, REFUSED = "born", "looks", "refused"
HOLDS, FLAPS = "holds", "flaps"

_POLL_SECONDS = 0.002


class Order(NamedTuple):
    """What a child is to do."""

    database_url: str
    folder: str  #: what the clock says, and who may go on
    behaviour: str  #: ``HOLDS``: the same at each tick; ``FLAPS``: at every other
    runs: int  #: in a row until it fires
    lease_seconds: float


class Message(NamedTuple):
    """What the program and its children print."""

    what: str
    child: int
    tick: int


@dataclass(frozen=True, slots=True)
class Gate:
    """Files that a test writes for children: the tick that it is, and who may go on with one."""

    folder: Path

    def set_tick(self, tick: int) -> None:
        """Let it be that tick."""
        fresh = self.folder / "fresh"
        fresh.write_text(str(tick))
        fresh.replace(self.folder / "tick")

    def tick(self) -> int:
        """Return the current tick."""
        return int((self.folder / "tick").read_text())

    def open(self, child: int, tick: int) -> None:
        """Let the child go on with what it is at."""
        self._of(child, tick).touch()

    def wait(self, child: int, tick: int) -> None:
        """Wait for that."""
        while not self._of(child, tick).exists():
            time.sleep(_POLL_SECONDS)

    def _of(self, child: int, tick: int) -> Path:
        return self.folder / f"{child}-{tick}"


@dataclass(frozen=True, slots=True)
class Looks:
    """What stands in for the clock and the detector."""

    gate: Gate
    behaviour: str

    def clock(self, _conn: Connection) -> int:
        """Return the time: a tick is an hour."""
        return self.gate.tick() * HOUR_US

    def evaluate(
        self, conn: Connection, _project_id: int, as_of_us: int, _plan: Plan, _memory: Memory
    ) -> RunResult:
        """Find what is to be found, once that is allowed."""
        if conn.dialect.name == "postgresql":  # who is paused is to be refused by the lease alone
            conn.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        tick, child = as_of_us // HOUR_US, os.getpid()
        say(Message(LOOKS, child, tick))
        self.gate.wait(child, tick)
        holds = self.behaviour == HOLDS or tick % 2 == 1
        return evaluated([replace(finding(), holds=holds)])


class Refusals(logging.Handler):
    """Prints that a write was refused."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print it."""
        if getattr(record, "event", "") == "lease_lost":
            say(Message(REFUSED, os.getpid(), 0))


def say(message: Message) -> None:
    """Print a line at once, which no other process breaks."""
    os.write(1, (json.dumps(message) + "\n").encode())


def opened(database_url: str) -> Store:
    """Open a store, once whoever was killed with it open is gone."""
    while True:
        try:
            return open_store(database_url)
        except StoreInUse:
            time.sleep(_POLL_SECONDS)


def evaluate(order: Order) -> NoReturn:
    """Be an evaluator for good."""
    logging.getLogger("ett_service.worker.regressions").addHandler(Refusals())
    store = opened(order.database_url)
    looks = Looks(Gate(Path(order.folder)), order.behaviour)
    receiver = Receiver(OF_SETTINGS, "fleet", "https://example.org/hook", FORMATS["generic"])
    detecting = DetectionOptions(
        rules=StateRules(runs=order.runs, quiet_runs=1),
        audience=Audience(Directory([receiver])),
        every_us=HOUR_US,
        lease_seconds=order.lease_seconds,
        evaluate=looks.evaluate,
        clock=looks.clock,
    )
    DetectionThread(store, detecting).start()
    while True:
        signal.pause()


def main() -> None:
    """Fork children until the input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that died leave nothing behind
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            evaluate(Order(*json.loads(line)))
        say(Message(BORN, child, 0))


if __name__ == "__main__":
    main()
