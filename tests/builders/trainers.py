"""Recording in this process, and running trainers in others."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ett_service.client.identity import Identity
from ett_service.client.recorder import Recorder
from ett_service.client.sending.backlog import Backlog
from ett_service.client.sending.seals import Unsealing
from ett_service.client.session import Session, Setup
from tests.builders.forking import Forking

REPOSITORY = Path(__file__).parents[2]


@dataclass
class Recording:
    """A recorder of this process and what is in its spool."""

    recorder: Recorder
    session: Session

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every event that is on disk."""
        return spooled(self.recorder.spool.directory)

    def events_of(self, *types: str) -> list[dict[str, Any]]:
        """The events of these types, in the order of their instants."""
        chosen = [event for event in self.events if event["type"] in types]
        return sorted(chosen, key=lambda event: int(event["mono_us"]))


@contextmanager
def recording(
    root: Path,
    *,
    url: str | None = None,
    rank: int | None = None,
    job: str = "j",
    key: str = "ett_key",
) -> Iterator[Recording]:
    """Record in this process until the block ends, sending to *url* if there is one."""
    session = Session()
    identity = Identity(job, "launch", rank=rank, host="h")
    recorder = session.begin_here(Setup(identity, root, url, key))
    try:
        yield Recording(recorder, session)
    finally:
        session.close()


def spooled(root: Path) -> list[dict[str, Any]]:
    """Every event under *root*, each of which must be whole."""
    return [json.loads(event) for event in spooled_bytes(root)]


def spooled_bytes(root: Path) -> list[bytes]:
    """The same, as the client sends them."""
    events = []
    for path in sorted(root.rglob("0*.jsonl")):
        owner = Backlog(path.parent, alive=True).owner
        seals = Unsealing(path.parent.name, owner.get("base_us"))
        for line in path.read_bytes().splitlines():
            event = seals.event(line)
            assert event is not None, line
            events.append(event)
    return events


def recorded(process: Forking, code: str, folder: Path) -> tuple[list[dict[str, Any]], str]:
    """Fork a trainer whose code ends well; return its events by instant, and its errors."""
    spool = folder / "spool"
    env = environment(spool, OMP_NUM_THREADS="1", FOLDER=str(folder))
    done = process.run_trainer(code, env, folder)
    assert done.returncode == 0, done.stderr
    events = sorted(spooled(spool), key=lambda event: int(event["mono_us"]))
    return events, done.stderr


def environment(spool: Path, url: str | None = None, **more: str) -> dict[str, str]:
    """Return the environment of a trainer: none of a scheduler's or torchrun's variables."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    variables = {"ETT_SPOOL": str(spool), "ETT_JOB": "j", "PYTHONPATH": str(REPOSITORY)}
    return (
        inherited | variables | ({"ETT_URL": url, "ETT_API_KEY": "ett_key"} if url else {}) | more
    )


def run_trainer(
    code: str, env: Mapping[str, str], *arguments: str, seconds: float = 120
) -> "subprocess.CompletedProcess[str]":
    """Run a trainer's code in a Python of its own."""
    command = [sys.executable, "-c", "import ett_service as ett\n" + code, *arguments]
    return subprocess.run(
        command, env=dict(env), capture_output=True, text=True, timeout=seconds, check=False
    )


def run_ett(
    env: Mapping[str, str], *arguments: str, seconds: float = 120
) -> "subprocess.CompletedProcess[str]":
    """Run the ``ett`` command."""
    start = "import sys; from ett_service.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", start, *arguments]
    return subprocess.run(
        command, env=dict(env), capture_output=True, text=True, timeout=seconds, check=False
    )
