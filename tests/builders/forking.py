"""Run each trainer in a fork of one process that has PyTorch imported, which takes seconds."""

import atexit
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

_SECONDS = 120


class Forking:
    """A process that imported PyTorch, and forks where it is asked for a trainer."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run_trainer(
        self, code: str, env: Mapping[str, str], folder: Path
    ) -> "subprocess.CompletedProcess[str]":
        """Run a trainer's code; its standard error lies in *folder* meanwhile."""
        assert self._process.stdin
        assert self._process.stdout
        errors = folder / "errors"
        trainer = {"code": code, "env": dict(env), "errors": str(errors)}
        self._process.stdin.write(json.dumps(trainer) + "\n")
        self._process.stdin.flush()
        code_of_exit = int(self._process.stdout.readline())
        return subprocess.CompletedProcess("fork", code_of_exit, "", errors.read_text("utf-8"))


@contextmanager
def forking(env: Mapping[str, str]) -> Iterator[Forking]:
    """Start the process; it is gone when the block ends."""
    command = [sys.executable, __file__]
    with subprocess.Popen(
        command, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Forking(process)


def _main() -> None:
    for module in ("torch", "torch.utils.data", "torch._dynamo"):
        importlib.import_module(module)
    for line in sys.stdin:
        trainer = json.loads(line)
        child = os.fork()
        if not child:
            _train(trainer)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201


def _train(trainer: Mapping[str, Any]) -> NoReturn:
    """Run a trainer in this process as if it had been started for it."""
    os.environ.clear()
    os.environ.update(trainer["env"])
    sys.path.insert(0, trainer["env"]["PYTHONPATH"])
    errors = os.open(trainer["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor, instead in enumerate((nothing, nothing, errors)):
        os.dup2(instead, descriptor)
    code = 0
    try:
        exec(trainer["code"], {"__name__": "__main__"})  # noqa: S102
    except BaseException as error:  # noqa: BLE001 -- as the interpreter would
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    # Python's own way out takes PyTorch to pieces for a second.
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _main()
