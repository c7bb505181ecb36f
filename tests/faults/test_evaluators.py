"""Evaluators are paused and killed: each transition is written once, and by who leads."""

import json
import logging
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from sqlalchemy import Select, func, select

from ett_service.core.intervals import HOUR_US
from ett_service.storage.engine.store import open_for_reading, open_store
from ett_service.storage.record.keys import create_project
from ett_service.storage.schema import delivery, detection_run, regression, regression_change
from tests.builders.clock import NOON
from tests.builders.regressions.searches import searched_before
from tests.builders.servers.waiting import PATIENCE_S
from tests.faults.evaluators import BORN, FLAPS, HOLDS, LOOKS, REFUSED, Gate, Message, Order

log = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("evaluators")


@dataclass
class Program:
    """What forks evaluators, and what they print."""

    process: subprocess.Popen[str]
    messages: queue.SimpleQueue[Message] = field(default_factory=queue.SimpleQueue)

    def read(self) -> None:
        """Take up what is printed, until the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.messages.put(Message(*json.loads(line)))


@dataclass
class Children:
    """Evaluators on one database."""

    program: Program
    order: Order
    gate: Gate
    alive: set[int] = field(default_factory=set)
    pending: list[Message] = field(default_factory=list)

    def fork(self) -> int:
        """Start one, and return its number."""
        commands = self.program.process.stdin
        assert commands is not None
        commands.write(json.dumps(self.order) + "\n")
        commands.flush()
        child = self.wait(lambda message: message.what == BORN).child
        self.alive.add(child)
        return child

    def kill(self, child: int) -> None:
        """Kill one."""
        os.kill(child, signal.SIGKILL)
        self.alive.remove(child)

    def wait(self, matches: Callable[[Message], bool]) -> Message:
        """Wait for a message that matches; other messages stay pending."""
        for message in self.pending:
            if matches(message):
                self.pending.remove(message)
                return message
        while not matches(message := self.program.messages.get(timeout=PATIENCE_S)):
            if message.child in self.alive:
                self.pending.append(message)
        return message

    def wait_for_look(self, tick: int, *, but: int = 0) -> int:
        """Wait until one looks at that tick, another than *but*, and return which."""
        return self.wait(
            lambda message: message.what == LOOKS and message.tick == tick and message.child != but
        ).child

    def wait_for_refusal(self, child: int) -> None:
        """Wait until that one could not write."""
        self.wait(lambda message: message == Message(REFUSED, child, 0))


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """Return what forks evaluators."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.evaluators"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        program = Program(process)
        reader = threading.Thread(target=program.read, daemon=True)
        reader.start()
        yield program
        assert process.stdin is not None
        process.stdin.close()
        reader.join(PATIENCE_S)


@pytest.fixture
def children(database_url: str, tmp_path: Path, program: Program) -> Iterator[Children]:
    """Return what forks evaluators of a database with one project, searched before, at tick 0."""
    store = open_store(database_url)
    project_id = store.write(lambda conn: create_project(conn, "research", NOON))
    searched_before(store, project_id, midnight_us=0)
    store.close()
    gate = Gate(tmp_path)
    gate.set_tick(0)
    children = Children(program, Order(database_url, str(tmp_path), FLAPS, 1, 0.1), gate)
    yield children
    for child in children.alive:
        os.kill(child, signal.SIGKILL)


@dataclass(frozen=True)
class Reader:
    """Reads the database beside those who write it."""

    database_url: str

    def rows(self, statement: Select[*tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return what it selects."""
        store = open_for_reading(self.database_url)
        try:
            with store.reading() as conn:
                return [tuple(row) for row in conn.execute(statement).all()]
        finally:
            store.close()

    def wait_for_run(self, tick: int) -> None:
        """Wait until the run of that tick is written."""
        store = open_for_reading(self.database_url)
        runs = select(func.count()).where(detection_run.c.at_us == tick * HOUR_US)
        deadline = time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < deadline:
                with store.reading() as conn:
                    if conn.execute(runs).scalar_one():
                        return
                time.sleep(0.005)
        finally:
            store.close()
        raise TimeoutError(tick)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("rounds", "lease_seconds", "takeover_seconds"),
    [
        (8, 0.1, 5.0),
        # A lease of production, 15 s, 20 times as fast, and three of them to take over.
        pytest.param(None, 0.75, 2.25, marks=pytest.mark.long, id="long"),
    ],
)
@pytest.mark.timeout(1_200)
def test_of_two_evaluators_one_acts_whoever_is_paused(
    database_url: str,
    children: Children,
    rounds: int | None,
    lease_seconds: float,
    takeover_seconds: float,
    pytestconfig: pytest.Config,
) -> None:
    rounds = rounds or pytestconfig.getoption("--rounds")
    children.order = children.order._replace(lease_seconds=lease_seconds)
    reader = Reader(database_url)
    pair = {children.fork(), children.fork()}
    for child in pair:
        children.gate.open(child, 0)
    reader.wait_for_run(0)
    takeovers = []
    for tick in range(1, rounds + 1):
        children.gate.set_tick(tick)
        paused = children.wait_for_look(tick)
        os.kill(paused, signal.SIGSTOP)
        began = time.monotonic()
        leader = children.wait_for_look(tick, but=paused)
        takeovers.append(time.monotonic() - began)
        children.gate.open(leader, tick)
        reader.wait_for_run(tick)
        children.gate.open(paused, tick)
        os.kill(paused, signal.SIGCONT)
        assert {paused, leader} == pair
        children.wait_for_refusal(paused)

    log.info("%d takeovers, the longest in %.3f s", rounds, max(takeovers))
    ticks = list(range(1, rounds + 1))
    changes = select(regression_change.c.at_us, regression_change.c.version)
    assert reader.rows(changes.order_by(regression_change.c.seq)) == [
        (tick * HOUR_US, tick) for tick in ticks
    ]
    versions = select(delivery.c.version).order_by(delivery.c.version)
    assert reader.rows(versions) == [(tick,) for tick in ticks]
    epochs = reader.rows(select(detection_run.c.epoch).order_by(detection_run.c.at_us))
    assert epochs == sorted(set(epochs))
    assert median(takeovers) < takeover_seconds


@pytest.mark.parametrize("rounds", [1, pytest.param(None, marks=pytest.mark.long, id="long")])
@pytest.mark.timeout(1_200)
def test_one_that_is_killed_at_every_tick_fires_at_the_same(
    database_url: str, children: Children, rounds: int | None, pytestconfig: pytest.Config
) -> None:
    rounds = rounds or pytestconfig.getoption("--rounds") // 10
    reader, chances = Reader(database_url), random.Random(5)
    children.order = children.order._replace(behaviour=HOLDS, runs=10, lease_seconds=0.05)
    ticks = range(1, 10 * rounds + 1)
    for tick in ticks:
        children.gate.set_tick(tick)
        if tick % 3 == 0:
            _kill_while_it_looks(children, tick)
        child = children.fork()
        assert children.wait_for_look(tick) == child
        children.gate.open(child, tick)
        if tick % 3 == 1:
            time.sleep(chances.random() * 0.02)  # before, in the middle of or after its write
            child = _replace(children, child, tick)
        reader.wait_for_run(tick)
        children.kill(child)

    changes = select(regression_change.c.at_us, regression_change.c.what)
    assert reader.rows(changes.order_by(regression_change.c.seq)) == [
        (1 * HOUR_US, "pending"),
        (10 * HOUR_US, "firing"),
    ]
    assert reader.rows(select(delivery.c.version)) == [(1,)]
    assert len(reader.rows(select(detection_run.c.at_us))) == 1 + len(ticks)
    assert reader.rows(select(regression.c.runs)) == [(len(ticks),)]


def _kill_while_it_looks(children: Children, tick: int) -> None:
    child = children.fork()
    assert children.wait_for_look(tick) == child
    children.kill(child)


def _replace(children: Children, child: int, tick: int) -> int:
    """Kill it, and let another do what it left undone."""
    children.kill(child)
    other = children.fork()
    children.gate.open(other, tick)
    return other
