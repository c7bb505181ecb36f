"""What has begun on this machine, by marks that outlive the processes that left them."""

import os
import time
from contextlib import suppress
from pathlib import Path

FOLDER = "begun"

_KEPT_SECONDS = 90 * 86_400


def begins_first(root: Path, name: str) -> bool:
    """Whether nothing of this name began before, by the marks in the folder of the spools.

    Where no mark can be left, something may have.
    """
    folder = root / FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(folder / name.replace("/", "-"), os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    _forget_old(folder)
    return True


def _forget_old(folder: Path) -> None:
    with suppress(OSError):
        for mark in folder.iterdir():
            if time.time() - mark.stat().st_mtime > _KEPT_SECONDS:
                mark.unlink(missing_ok=True)
