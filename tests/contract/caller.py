"""A program that makes drawn calls of the client, each sequence in a process of its own.

It reads one pickled ``(folder, variables, calls)`` a line, forks, makes the calls in the child and
answers with the child's exit code: 3 means that a call raised.
"""

import base64
import os
import pickle
import sys
import traceback
from concurrent.futures import Future
from typing import Any

import ett_service as ett
from ett_service.client import sender  # noqa: F401 -- once, before the children

LEAVE = "leave"

OPENING = frozenset({"phase", "stage", "train_loop", "checkpoint"})
"""Calls that open a block, which ``leave`` closes."""


def make(calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> None:
    """Make the calls in order; blocks that are left open stay so."""
    blocks: list[Any] = []
    for name, arguments, options in calls:
        if name == LEAVE:
            if blocks:
                blocks.pop().__exit__(None, None, None)
        elif name in OPENING:
            block = getattr(ett, name)(*arguments, **options)
            block.__enter__()
            blocks.append(block)
        elif name == "data":
            list(ett.data(*arguments))
        elif name == "durable_when":
            with ett.checkpoint(*arguments) as saved:
                future: Future[None] = Future()
                future.set_result(None)
                saved.durable_when(future)
        else:
            getattr(ett, name)(*arguments, **options)


def _in_child(
    folder: str, variables: dict[str, str], calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]]
) -> None:
    # What is warned of is no answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    os.environ.update({"ETT_SPOOL": folder, **variables})
    make(calls)
    sys.exit(0)


def main() -> None:
    """Serve until there are no more lines."""
    for line in sys.stdin:
        folder, variables, calls = pickle.loads(base64.b64decode(line))  # noqa: S301 -- from the test
        child = os.fork()
        if child == 0:
            try:
                _in_child(folder, variables, calls)
            except Exception:  # noqa: BLE001 -- the exit code reports it
                traceback.print_exc()
                os._exit(3)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
