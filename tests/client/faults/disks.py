"""Faults of the disk: what is full, closed, read-only, gone, or no folder at all."""

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ett_service as ett
from ett_service.client.current import current
from tests.client.faults.odd import Fault


def _edges() -> None:
    for n in range(3):
        with ett.phase("evaluation"):
            ett.step(n)


def _replaced(path: str, flags: int) -> Callable[[Any], None]:
    def replace(spool: Any) -> None:
        fd = os.open(path, flags)
        os.dup2(fd, spool._opened)  # noqa: SLF001 -- what a full disk is to it
        os.close(fd)

    return replace


def _closed(spool: Any) -> None:
    os.close(spool._opened)  # noqa: SLF001 -- as a daemon that closes what it does not know


def _none(spool: Any) -> None:
    spool.fd = -1


def takes_nothing(draw: random.Random) -> None:
    """Write to what takes nothing; a new segment may help, or not."""
    spool: Any = current.recorder.spool if current.recorder else None
    if draw.random() < 0.5:
        shutil.rmtree(spool.directory, ignore_errors=True)
    full = draw.choice(
        (_replaced("/dev/full", os.O_WRONLY), _replaced("/dev/null", os.O_RDONLY), _closed, _none)
    )
    full(spool)
    before = len(spool.ring) + sum(spool.dropped.values())
    _edges()
    assert len(spool.ring) + sum(spool.dropped.values()) > before
    ett.end()


def no_folder(draw: random.Random) -> None:
    """Begin where no spool can be made: every event is kept in memory."""
    ett.end()
    before = os.environ["ETT_SPOOL"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "file").touch()
        nowhere = draw.choice((f"{folder}/file", "/proc/nowhere", "x" * 5000, f"{folder}/\udcff/y"))
        os.environ["ETT_SPOOL"] = nowhere
        try:
            ett.init("faults")
            _edges()
            ett.end()
        finally:
            os.environ["ETT_SPOOL"] = before


FAULTS = (
    Fault("a disk that takes nothing", takes_nothing),
    Fault("a spool that cannot be made", no_folder, is_counted=False),
)
