"""A trainer of several ranks: ``FOLDER [RANK kill|raise|again|hang]``, which dies and how."""

import os
import sys
import time
from pathlib import Path

import ett_service as ett
from ett_service.client.clock import process_started_us, wall_base_us
from tests.builders.nodes import DIES_AT, LAST, SAVED_AT, STEP_SECONDS
from tests.builders.servers.waiting import PATIENCE_S

HANGS_SECONDS = 6.0
SPEAKS_EVERY = 5


def runs(pid: str) -> bool:
    """Whether a process runs: one that was killed stands in the table until it is reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] != "Z"


class Peers:
    """The other ranks, as collectives would show them."""

    def __init__(self, folder: Path, rank: int, world: int) -> None:
        self.folder = folder
        self.rank = rank
        self.others = [other for other in range(world) if other != rank]
        self.seen: dict[int, str] = {}

    def meet(self, step: int) -> None:
        """Wait until every rank has come to *step*; give up where one is gone."""
        draft = self.folder / f"draft-{os.getpid()}"
        draft.write_text(f"{os.getpid()} {step}")
        draft.rename(self.folder / f"at-{self.rank}")
        for other in self.others:
            while not self._has_come(other, step):
                time.sleep(0.01)

    def _has_come(self, other: int, step: int) -> bool:
        path = self.folder / f"at-{other}"
        pid, at = path.read_text().split() if path.exists() else ("0", "0")
        is_alive = runs(pid)
        is_same = self.seen.get(other, pid if is_alive else None) == pid
        if is_same and int(at) >= step:  # one that has come to the last step may be gone
            self.seen[other] = pid
            return True
        if other in self.seen and not (is_alive and is_same):
            time.sleep(HANGS_SECONDS)
            sys.exit("connection reset by peer")
        return False


def main() -> None:
    """Train, from the last checkpoint on."""
    folder, *dies = Path(sys.argv[1]), *sys.argv[2:]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    peers = Peers(folder, rank, world)
    while True:
        try:
            train(folder, peers, dies)
        except RuntimeError as error:
            if dies[1] != "again":
                raise
            ett.end("failed", exception="RuntimeError", message=str(error))
        else:
            return


def train(folder: Path, peers: Peers, dies: list[str]) -> None:
    """Live once."""
    ett.init()
    saved = folder / "saved"
    first = int(saved.read_text()) if saved.exists() else 0
    if first:
        ett.restored(first)
    peers.meet(first)
    began = time.monotonic()
    note(folder, peers.rank, "entered")
    with ett.train_loop():
        for step in range(first + 1, LAST + 1):
            time.sleep(max(0.0, began + (step - first) * STEP_SECONDS - time.monotonic()))
            if step == DIES_AT and dies and int(dies[0]) == peers.rank:
                die(folder, dies[1])
            peers.meet(step)
            ett.step(step)
            if step == SAVED_AT:
                with ett.checkpoint(step):
                    saved.write_text(str(step))
            elif step % SPEAKS_EVERY == 0:
                with ett.phase("evaluation"):
                    pass
    note(folder, peers.rank, "left")


def note(folder: Path, rank: int, what: str) -> None:
    """Note by the wall clock what the ledger is to be compared with, and when the agent began."""
    agent_us = (process_started_us(os.getppid()) or 0) + wall_base_us()
    with (folder / "diary").open("a") as diary:
        diary.write(f"{rank} {what} {time.time_ns() // 1000} {agent_us}\n")


def die(folder: Path, how: str) -> None:
    """Die once in the life of the job."""
    try:
        (folder / "died").touch(exist_ok=False)
    except FileExistsError:
        return
    if how in ("kill", "raise"):
        note(folder, int(os.environ["RANK"]), "died")
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "hang":
        time.sleep(PATIENCE_S)
    raise RuntimeError("bad batch")


if __name__ == "__main__":
    main()
