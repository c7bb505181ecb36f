"""What the processes of a launch sent, and when they ended, left for the launcher of them all."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, fields
from pathlib import Path
from typing import NamedTuple

from ett_service.client.sending.courier import Tally

_NUMBERS = 2 + len(fields(Tally))

LAUNCHER = "ETT_LAUNCHER"
"""Set by ``ett run`` for its child: who reports what became of the events."""


class LastEnd(NamedTuple):
    """When the last process of a launch began to end, in microseconds of the clock."""

    at_us: int
    cycle: int
    job: str


def leave(directory: Path, launch: str, tally: Tally, end: LastEnd) -> None:
    """Leave in the *directory* of its job what a process sent. Raises ``OSError``."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(_path(directory, launch), flags, 0o600)
    try:
        counts = (end.at_us, end.cycle, *astuple(tally))
        os.write(fd, (" ".join(map(str, (*counts, end.job))) + "\n").encode())
    finally:
        os.close(fd)


def last_end(directory: Path, launch: str) -> LastEnd | None:
    """Return when the last of those that left something ended, None where nobody did."""
    return max((end for end, _ in _left(directory, launch)), default=None)


def job_of(root: Path, launch: str, since_us: int) -> str | None:
    """Return the job that a process of the launch named, if one has ended since that instant.

    *root* holds the directories of all jobs.
    """
    with suppress(OSError):
        ends = (last_end(directory, launch) for directory in root.iterdir())
        latest = max((end for end in ends if end is not None), default=None)
        if latest is not None and latest.at_us >= since_us:
            return latest.job
    return None


def collect(directory: Path, launch: str) -> Tally:
    """Return the sum of what was left, and remove it."""
    total = Tally()
    for _, tally in _left(directory, launch):
        total = total + tally
    _path(directory, launch).unlink(missing_ok=True)
    return total


def _left(directory: Path, launch: str) -> Iterator[tuple[LastEnd, Tally]]:
    with suppress(OSError, ValueError):
        *lines, _ = _path(directory, launch).read_text("utf-8").split("\n")
        for line in lines:
            *numbers, job = line.split(" ", _NUMBERS)
            at_us, cycle, *counts = map(int, numbers)
            yield LastEnd(at_us, cycle, job), Tally(*counts)


def _path(directory: Path, launch: str) -> Path:
    return directory / f"sent-{launch.replace('/', '-')}"
