"""``make demo``: a real training job, through a crash, and the ledger of its time.

Starts the service on SQLite in a folder of its own, trains under ``ett run`` and torchrun, and
prints what the job's time went on. Progress goes to standard error, the ledger to standard output.
"""

import argparse
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from ett_service.client.transport import Unreachable, request

JOB = "copy"
TRAINER = Path(__file__).with_name("trainer.py")
PROGRAMS = Path(sys.executable).parent
MICROSECONDS = 1_000_000

_SERVING = re.compile(r"Serving on (http://\S+)")
_SETTLED_S = 15
_SHOWN_LINES = 30


class Trouble(Exception):
    """What went wrong, and what to try."""


@dataclass(frozen=True)
class Server:
    """A running service and a key for it."""

    url: str
    key: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the client and the command line find it."""
        return without_ours() | {"ETT_URL": self.url, "ETT_API_KEY": self.key}

    def answer(self, path: str) -> Any:
        """Return what the service answers, None where it has nothing there yet."""
        try:
            answer = request("GET", self.url + path, self.key)
        except Unreachable as error:
            raise Trouble(f"the service is gone: {error}") from error
        return json.loads(answer.body) if answer.status == HTTPStatus.OK else None


class Teller:
    """Says what is happening, with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Run the demo and return its exit code."""
    args, for_trainer = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the service would be left behind
    try:
        with ExitStack() as stack:
            folder = args.folder
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ett-demo-")))
            demo(folder, for_trainer)
    except Trouble as trouble:
        print(f"demo: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130
    return 0


def demo(folder: Path, for_trainer: Sequence[str]) -> None:
    """Serve, train and show. Raises ``Trouble``."""
    tell = Teller()
    check(folder)
    tell("starting the service, on SQLite")
    with served(folder) as server:
        tell(f"it serves {server.url} (/docs, /metrics) until the demo ends")
        tell("training: a job that is killed once and restarted; the first compile takes longest")
        train(server, folder, for_trainer, tell)
        job = finished(server)
        tell("done; this is what its time went on")
        show(server)
    print("\n" + conservation(job))


def check(folder: Path) -> None:
    """Raise ``Trouble`` where something is missing."""
    for package in ("torch", "fastapi", "rich"):
        if importlib.util.find_spec(package) is None:
            raise Trouble(f"{package} is not installed here.\nTry: make demo, which installs it.")
    if folder.exists() and any(folder.iterdir()):
        raise Trouble(f"{folder} is not empty.\nTry: --folder with a new folder, or without it.")
    folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    """Run the service on a free loopback port until the block ends. Raises ``Trouble``."""
    log = folder / "server.log"
    variables = {"ETT_DATABASE_URL": f"sqlite:///{folder / 'ett.db'}"}
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 -- our own command
            [PROGRAMS / "ett", "serve", "--port", "0"],
            env=without_ours() | variables,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        # It prints its first key when it serves, and nothing where it fails.
        key = process.stdout.readline().strip()
        address = _SERVING.search(log.read_text())
        if not key or address is None:
            raise Trouble(f"the service did not start; it said:\n{tail(log)}\nTry: ett doctor")
        yield Server(address.group(1), key)
    finally:
        process.terminate()
        process.communicate()


def train(server: Server, folder: Path, for_trainer: Sequence[str], tell: Teller) -> None:
    """Run the training job to its end, telling what the trainer says. Raises ``Trouble``."""
    log = folder / "training.log"
    torchrun = [str(PROGRAMS / "torchrun"), "--standalone", "--max-restarts=1", str(TRAINER)]
    torchrun += ["--folder", str(folder / "checkpoints"), *for_trainer]
    variables = {
        "ETT_SPOOL": str(folder / "spool"),
        "OMP_NUM_THREADS": "1",  # so small a model trains no faster on more
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    command = [str(PROGRAMS / "ett"), "run", "--job", JOB, "--", *torchrun]
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 -- our own command
            command,
            env=server.environment | variables,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            tell(line.rstrip())
    finally:
        if process.poll() is None:
            process.terminate()
        code = process.wait()
    if code:
        raise Trouble(
            f"the training ended with exit code {code}; it said:\n{tail(log)}\n"
            f"Try the trainer alone: {shlex.join(torchrun)}"
        )


def finished(server: Server) -> Mapping[str, Any]:
    """Return the job's answer when all its events are in its numbers. Raises ``Trouble``."""
    deadline = time.monotonic() + _SETTLED_S
    while time.monotonic() < deadline:
        job: Mapping[str, Any] | None = server.answer(f"/v1/jobs/{JOB}")
        ready = server.answer("/readyz")
        if job and job["state"] == "finished" and ready and not ready["waiting_jobs"]:
            return job
        time.sleep(0.1)
    raise Trouble(
        f"{_SETTLED_S} s after its end the service does not know the job as finished.\n"
        "Try: --folder FOLDER, and read server.log and training.log there."
    )


def show(server: Server) -> None:
    """Print the job's ledger. Raises ``Trouble``."""
    shown = subprocess.run(  # noqa: S603 -- our own command
        [PROGRAMS / "ett", "job", JOB], env=server.environment, check=False
    )
    if shown.returncode:
        raise Trouble("the ledger could not be shown; the reason stands above.")


def conservation(job: Mapping[str, Any]) -> str:
    """Say that the categories sum to the wall time. Raises ``Trouble`` if they do not."""
    parts = sum(round(seconds * MICROSECONDS) for seconds in job["categories"].values())
    whole = round(job["e2e_seconds"] * MICROSECONDS)
    if parts != whole:
        raise Trouble(f"the categories sum to {parts} us of {whole} us. Please report this.")
    return f"The categories sum to the job's wall time: {parts:,} = {whole:,} microseconds."


def without_ours() -> dict[str, str]:
    """Return the environment without any setting of a service or trainer elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ETT_")}


def tail(log: Path) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])


def arguments() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; what is not the demo's own is the trainer's."""
    parser = argparse.ArgumentParser(
        description="Train a small model through a crash and print its ledger.",
        epilog="Further arguments go to the trainer: examples/trainer.py --help.",
    )
    parser.add_argument("--folder", type=Path, help="keep everything there; else nothing is kept")
    args, rest = parser.parse_known_args()
    args.folder = args.folder and args.folder.absolute()
    return args, rest


if __name__ == "__main__":
    sys.exit(main())
