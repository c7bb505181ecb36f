"""Real torchrun agents on this machine, each as a node of its own, and a trainer for them.

The trainer keeps its ranks in step by files, as collectives would: no rank reports a step before
all have come to it, and one whose peer is gone hangs for a while before it gives up.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ett_service.core.events import Event
from tests.builders.servers.programs import free_port
from tests.builders.servers.waiting import PATIENCE_S, wait_for
from tests.builders.timelines import event
from tests.builders.trainers import environment, spooled

STEP_SECONDS = 0.1
SAVED_AT, TOLD_AT, DIES_AT, LAST = 10, 25, 27, 40
"""Steps: of the checkpoint, of the last progress before the death, of the death, of the end."""

TRAINER = Path(__file__).with_name("trainer_of_nodes.py")
_STORE = Path(__file__).with_name("rendezvous_store.py")
_TORCHRUN = str(Path(sys.executable).with_name("torchrun"))
_EACH_ROUND = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Otherwise a node that joins a later round waits for what torch 2.13 says in the first only."""
_ETT_RUN = [
    sys.executable,
    "-c",
    "import sys; from ett_service.cli.main import main; sys.exit(main())",
    "run",
    "--",
]


@dataclass
class Nodes:
    """The nodes of one job, which share a folder and nothing else."""

    folder: Path
    launched: bool = True  #: each agent under ``ett run``
    variables: dict[str, str] = field(default_factory=dict)
    agents: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    stores: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self, options: Sequence[str], *dies: str) -> None:
        """Start the agent of one more node; of the trainer's ranks one *dies*."""
        command = [_TORCHRUN, "--max-restarts=2", "--monitor-interval=0.1", *options]
        trainer = [str(TRAINER), str(self.folder), *dies]
        with (self.folder / "agents.err").open("ab") as errors:
            agent = subprocess.Popen(
                [*(_ETT_RUN if self.launched else []), *command, *trainer],
                env=environment(self.folder / "spool", **_EACH_ROUND, **self.variables),
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        self.agents.append(agent)

    def start_two(self) -> None:
        """Start two nodes that can do without each other, so that they begin together.

        The first waits for the second however long that takes; the second, alone, for nobody.
        """
        port = free_port()
        store = [sys.executable, str(_STORE), str(port), _run_id(port)]
        self.stores.append(subprocess.Popen(store, stdout=subprocess.PIPE))
        self.start(_options("1:2", port, is_host=False, last_call_s=PATIENCE_S))
        joined = self.stores[-1].stdout
        assert joined is not None
        assert joined.readline() == b"joined\n"
        self.start(_options("1:2", port, is_host=False))

    def wait(self) -> list[int]:
        """Wait for every agent that was not lost; return their exit codes."""
        return [agent.wait(PATIENCE_S) for agent in self.agents]

    def lose(self, place: int) -> None:
        """Kill an agent and all that it started, as a machine that loses its power."""
        processes = _with_descendants(self.agents[place].pid)
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.agents.pop(place).wait()

    def orphan(self, place: int) -> None:
        """Kill torchrun alone; its workers go on until they hang, and somebody clears them away."""
        launcher = self.agents.pop(place)
        agent, *workers = _with_descendants(launcher.pid)[1 if self.launched else 0 :]
        os.kill(agent, signal.SIGKILL)
        launcher.wait(PATIENCE_S)
        wait_for((self.folder / "died").exists)
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def diary(self) -> list[tuple[int, str, int, int]]:
        """Return what ranks noted: rank, what, and when; and when its agent began."""
        rows = (line.split() for line in (self.folder / "diary").read_text().splitlines())
        return [(int(rank), what, int(at), int(agent)) for rank, what, at, agent in rows]

    def wait_for_step(self, step: int) -> None:
        """Wait until the leading rank has come to *step*."""
        wait_for(lambda: self._step() >= step, lambda: f"step {self._step()} of {step}")

    def _step(self) -> int:
        with suppress(OSError, ValueError):
            return int((self.folder / "at-0").read_text().split()[1])
        return 0

    def names(self) -> set[str]:
        """Return the jobs that all processes have recorded."""
        return {wire["job"] for wire in spooled(self.folder / "spool")}

    def events(self) -> list[Event]:
        """Return what all processes have left in their spools."""
        return [event(wire) for wire in spooled(self.folder / "spool")]


@contextmanager
def nodes(folder: Path, *, launched: bool = True, **variables: str) -> Iterator[Nodes]:
    """Hold the nodes of a job; what is left of them at the end is killed."""
    folder.mkdir()
    job = Nodes(folder, launched, variables)
    try:
        yield job
    finally:
        while job.agents:
            job.lose(0)
        for store in job.stores:
            with store:
                store.kill()


def rendezvous(nodes: str = "2") -> tuple[list[str], list[str]]:
    """Return the options by which agents find each other: of the one that is host, and of others.

    A node that is lost is given up after five seconds.
    """
    port = free_port()
    return _options(nodes, port, is_host=True), _options(nodes, port, is_host=False)


def _options(nodes: str, port: int, *, is_host: bool, last_call_s: float = 1) -> list[str]:
    patience = f"last_call_timeout={last_call_s:g},keep_alive_interval=1,keep_alive_max_attempt=5"
    return [
        f"--nnodes={nodes}",
        "--nproc-per-node=1",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}",
        f"--rdzv-id={_run_id(port)}",
        f"--rdzv-conf={patience},is_host={str(is_host).lower()}",
    ]


def _run_id(port: int) -> str:
    return f"run-{port}"


def _with_descendants(pid: int) -> list[int]:
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(each for child in children for each in _with_descendants(int(child)))]
    return [pid]
