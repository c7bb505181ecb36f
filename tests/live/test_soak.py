"""A service under steady load and random restarts for half an hour: it loses nothing and grows not.

``--minutes`` says how long. In the last third nothing is restarted, and what server and worker take
of memory and of descriptors is watched.
"""

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import pytest
from sqlalchemy import func, select

from ett_service.client.sending.transport import Unreachable
from ett_service.core.intervals import rfc3339
from ett_service.storage.engine.migrate import migrate
from ett_service.storage.engine.store import open_store
from ett_service.storage.schema import dirty
from ett_service.storage.schema import event as stored
from tests.builders.databases.engines import new_postgresql
from tests.builders.servers.ett import Server
from tests.builders.servers.processes import Running, run
from tests.builders.servers.programs import free_port
from tests.builders.servers.resident import resident_mib
from tests.builders.servers.waiting import wait_for

BATCH, OF_A_JOB = 25, 500
PAUSE_S = 0.25
GROWTH_MIB = 16
"""What a process may take more at the end of the calm third than after its first quarter."""

MORE_DESCRIPTORS = 8


@dataclass
class Load:
    """A sender that sends each batch until it is acknowledged."""

    server: Server
    acknowledged: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)
    enough: Event = field(default_factory=Event)

    def run(self) -> None:
        """Send until there is enough."""
        while not self.enough.wait(PAUSE_S):
            first = self.acknowledged
            events = [self._event(number) for number in range(first, first + BATCH)]
            while not self._is_acknowledged(events):
                self.refused += 1
                time.sleep(0.1)
            self.acknowledged += BATCH

    def _is_acknowledged(self, events: list[dict[str, object]]) -> bool:
        try:
            answer = self.server.send(events)
        except Unreachable:
            return False
        if answer.status not in (200, 429, 503):
            self.faults.append(f"{answer.status}: {answer.body[:200]!r}")
        return answer.status == 200

    def _event(self, number: int) -> dict[str, object]:
        place = number % OF_A_JOB
        event: dict[str, object] = {
            "id": f"soak-{number}",
            "job": f"soak-{number // OF_A_JOB}",
            "attempt": 0,
            "at": rfc3339(time.time_ns() // 1_000),
        }
        if place == 0:
            return event | {"type": "attempt_started", "gpus": 8}
        if place == 1:
            return event | {"type": "phase_started", "phase": "train_loop"}
        if place == OF_A_JOB - 1:
            return event | {"type": "attempt_ended", "outcome": "completed"}
        return event | {"type": "progress", "step": place}


@dataclass
class Taken:
    """What a process took over time."""

    resident: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    def look(self, pid: int) -> None:
        """Take note of what it takes now."""
        self.resident.append(resident_mib(pid))
        self.descriptors.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))

    def growth(self) -> tuple[int, int]:
        """Return how much more it took at the end than after its first quarter."""
        quarter = max(1, len(self.resident) // 4)
        warm, late = self.resident[quarter : 2 * quarter], self.resident[-quarter:]
        early = self.descriptors[: 2 * quarter]
        return min(late) - max(warm), max(self.descriptors[-quarter:]) - max(early)


class Machine:
    """A server and a worker of one database, each of which can be ended and started again."""

    def __init__(self, url: str, folder: Path) -> None:
        settings = {"ETT_EMBEDDED_WORKER": "false", "ETT_PORT": str(free_port())}
        self.server = Server(url, folder, **settings)
        self.server.start()
        self._folder = folder
        self._worker = self._new_worker()

    @property
    def pids(self) -> dict[str, int]:
        """The numbers of the processes."""
        return {"server": self.server.pid, "worker": self._worker.pid}

    def restart(self, drawn: random.Random) -> None:
        """End one of them, gently or not, and start it again."""
        number = drawn.choice([signal.SIGKILL, signal.SIGTERM])
        if drawn.random() < 0.5:
            self._worker.send_signal(number)
            self._worker.wait()
            self._worker = self._new_worker()
        else:
            self.server.kill() if number is signal.SIGKILL else self.server.stop()
            self.server.start()

    def stop(self) -> None:
        """End both."""
        self._worker.stop()
        self.server.stop()

    def _new_worker(self) -> Running:
        return Running("worker", folder=self._folder, environment=self.server.environment)


@contextmanager
def sending(server: Server) -> Iterator[Load]:
    """Send while the block runs."""
    load = Load(server)
    thread = Thread(target=load.run)
    thread.start()
    try:
        yield load
    finally:
        load.enough.set()
        thread.join()


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_nothing_is_lost_and_nothing_grows_under_steady_load(
    postgres_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    minutes, seed = request.config.getoption("--minutes"), random.randrange(1 << 32)
    drawn = random.Random(seed)
    with new_postgresql(postgres_url) as url:
        migrate(url)
        machine = Machine(url, tmp_path)
        try:
            with sending(machine.server) as load:
                restarts = _restarted(machine, drawn, minutes * 40)
                taken = _watched(machine, minutes * 20)
            _settled(url)
        finally:
            machine.stop()
        verified = run("verify", "--fleet", folder=tmp_path, environment=machine.server.environment)
        store = open_store(url)
        with store.reading() as conn:
            count = conn.scalar(select(func.count()).select_from(stored))
        store.close()
    growth = {name: each.growth() for name, each in taken.items()}
    summary = f"seed {seed}, {restarts} restarts, {load.acknowledged} acknowledged, {growth}"
    print(f"soak: {summary}, lost {load.acknowledged - (count or 0)}")  # noqa: T201 - the result
    assert load.faults == []
    assert count == load.acknowledged, summary
    assert verified.returncode == 0, f"{summary}\n{verified.stdout}{verified.stderr}"
    assert all(
        more < GROWTH_MIB and open_ <= MORE_DESCRIPTORS for more, open_ in growth.values()
    ), summary


def _restarted(machine: Machine, drawn: random.Random, seconds: float) -> int:
    def restart() -> None:
        time.sleep(drawn.uniform(2, 18))
        machine.restart(drawn)

    return _until(seconds, restart)


def _watched(machine: Machine, seconds: float) -> dict[str, Taken]:
    taken = {name: Taken() for name in machine.pids}

    def look() -> None:
        time.sleep(0.5)
        for name, pid in machine.pids.items():
            taken[name].look(pid)

    _until(seconds, look)
    return taken


def _until(seconds: float, act: Callable[[], None]) -> int:
    until, times = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        act()
        times += 1
    return times


def _settled(url: str) -> None:
    store = open_store(url)

    def is_clean() -> bool:
        with store.reading() as conn:
            return not conn.scalar(select(func.count()).select_from(dirty))

    wait_for(is_clean)
    store.close()
