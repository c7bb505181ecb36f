"""What the processes of a launch sent themselves, left for the launcher that sums it up."""

import os
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path

from ett_service.client.sending.courier import Tally

LAUNCHER = "ETT_LAUNCHER"
"""Set by ``ett run`` for its child: who reports what became of the events."""


def leave(directory: Path, launch: str, tally: Tally) -> None:
    """Leave what a process sent in the *directory* of its job. Raises ``OSError``."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(_path(directory, launch), flags, 0o600)
    try:
        os.write(fd, (" ".join(map(str, astuple(tally))) + "\n").encode())
    finally:
        os.close(fd)


def collect(directory: Path, launch: str) -> Tally:
    """Return the sum of what was left, and remove it."""
    path = _path(directory, launch)
    total = Tally()
    with suppress(OSError, ValueError):
        for line in path.read_text("ascii").splitlines():
            total = total + Tally(*map(int, line.split()))
    path.unlink(missing_ok=True)
    return total


def _path(directory: Path, launch: str) -> Path:
    return directory / f"sent-{launch.replace('/', '-')}"
