"""``ett`` in processes of their own, forked from one that has imported what commands need.

A command that is run so costs a fiftieth of one that starts anew. That the installed program
starts is held by the tests of the wheel and by those of `tests/cli/test_main.py`.
"""

import atexit
import fcntl
import importlib
import multiprocessing
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import TextIOWrapper
from multiprocessing import connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from threading import Lock
from typing import NoReturn

from ett_service.cli.main import main
from tests.builders.servers.waiting import PATIENCE_S

ETT = str(Path(sys.executable).with_name("ett"))
"""The installed program."""

_IMPORTED = ("ett_service.cli", "ett_service.api", "ett_service.worker")


def bare_environment() -> dict[str, str]:
    """Return the environment without any variable of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ETT_")}


def nothing() -> None:
    """Leave the process as it is."""


class Running:
    """A command that was started, with all that it has written so far.

    It calls *prepare* before anything else, which makes a process with a fault.
    """

    def __init__(
        self,
        *arguments: str,
        folder: Path | None = None,
        environment: Mapping[str, str],
        prepare: Callable[[], None] = nothing,
    ) -> None:
        self.arguments = arguments
        self._written = Path(tempfile.mkdtemp(dir=_folder()))
        self._process: ForkServerProcess = _forks().Process(
            target=_run,
            args=(
                arguments,
                str(folder or Path.cwd()),
                dict(environment),
                str(self._written),
                prepare,
            ),
        )
        self._exit_code = Lock()  # of two threads that read it at once, one would read 255
        self._process.start()
        atexit.register(self._process.kill)  # or the session would wait for one that is left

    @property
    def out(self) -> str:
        """What it has written to its standard output."""
        return self._text("out")

    @property
    def err(self) -> str:
        """What it has written to its standard error."""
        return self._text("err")

    def first_line(self) -> str:
        """Return the first line of its standard output, or nothing before that is whole."""
        line, end, _ = self.out.partition("\n")
        return line if end else ""

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, or None while it runs; a signal that ended it is negative."""
        with self._exit_code:
            return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self.wait()

    def stop(self) -> int:
        """Ask it to end, unless it has, and return its exit code."""
        if self.returncode is None:
            self.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        connection.wait([self._process.sentinel], PATIENCE_S)
        code = self.returncode
        assert code is not None, f"ett {' '.join(self.arguments)} does not end\n{self.err}"
        return code

    def _text(self, name: str) -> str:
        path = self._written / name
        return path.read_text("utf-8") if path.exists() else ""


def run(
    *arguments: str, folder: Path | None = None, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    running = Running(*arguments, folder=folder, environment=environment)
    code = running.wait()
    return subprocess.CompletedProcess(arguments, code, running.out, running.err)


@cache
def _folder() -> str:
    """Return where commands write, up to the end of the session."""
    folder = tempfile.mkdtemp(prefix="ett-written-")
    atexit.register(shutil.rmtree, folder)
    return folder


@cache
def _forks() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    modules = [
        module.name
        for name in _IMPORTED
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}.")
    ]
    context.set_forkserver_preload(["pytest", *modules])
    return context


def _run(
    arguments: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    written: str,
    prepare: Callable[[], None],
) -> NoReturn:
    """Be the command."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.stdout = _writing("out", 1, written)
    sys.stderr = _writing("err", 2, written)
    sys.argv = ["ett", *arguments]
    _end_with_the_parent()
    prepare()
    sys.exit(main())


def _end_with_the_parent() -> None:
    """Let this process end when the one that started it does, however that ends.

    The pipe to it then closes, and SIGIO, which closing sends to the owner, ends a process.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)


def _writing(name: str, descriptor: int, folder: str) -> TextIOWrapper:
    opened = os.open(Path(folder) / name, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.dup2(opened, descriptor)
    return open(descriptor, "w", encoding="utf-8", closefd=False)
