"""Giving up what nobody has sent, where it is too old or too much."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ett_service.client.sending.backlog import adopted
from ett_service.client.sending.spool import OWNER, REFUSED

KEPT_SECONDS = 7 * 86_400.0
"""How long unsent events, and those that were refused, are kept after they were written."""

_SHARE = 10
"""The spools of dead processes fill at most one part in so many of their file system."""

_SWEPT = ".swept"
_SWEEP_SECONDS = 3600.0


def sweep(root: Path, now_s: float, most_bytes: int | None = None) -> Counter[str]:
    """Give up what lies too long under *root*, and the oldest where that is too much.

    At *now_s* of the wall clock, once an hour and folder. Spools in use are left alone. Returns
    how many unsent lines were given up, by reason. *most_bytes* is by default a tenth of the disk.
    """
    given_up: Counter[str] = Counter()
    with suppress(OSError):
        if not _is_due(root / _SWEPT, now_s):
            return given_up
        disk = os.statvfs(root)
        most = disk.f_blocks * disk.f_frsize // _SHARE if most_bytes is None else most_bytes
        kept = 0
        for written_at, size, directory in sorted(_weighed(root), reverse=True):
            kept += size
            is_old = written_at < now_s - KEPT_SECONDS
            if is_old or kept > most:
                given_up["spool_old" if is_old else "spool_full"] += _forget(directory)
    return +given_up


def _is_due(mark: Path, now_s: float) -> bool:
    """Whether nobody has swept for an hour; whoever asks does so now. Raises ``OSError``."""
    with suppress(FileNotFoundError):
        if now_s - mark.stat().st_mtime < _SWEEP_SECONDS:
            return False
    mark.touch(mode=0o600)
    os.utime(mark, (now_s, now_s))
    return True


def _weighed(root: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield when each spool under *root* was last written to, its bytes and its folder."""
    for folder, _, files in os.walk(root):
        if OWNER in files or REFUSED in files:
            with suppress(OSError):
                stats = [Path(folder, name).stat() for name in files]
                written_at = max(stat.st_mtime for stat in stats)
                yield written_at, sum(stat.st_size for stat in stats), Path(folder)


def _forget(directory: Path) -> int:
    """Remove the spool of a dead process with all that it has; return how many lines were unsent.

    Raises ``OSError``.
    """
    unsent = 0
    if (directory / OWNER).exists():
        with adopted(directory) as backlog:
            if backlog is None:
                return 0
            unsent = backlog.unsent_lines()
            (directory / REFUSED).unlink(missing_ok=True)
            backlog.discard()
            return unsent
    (directory / REFUSED).unlink(missing_ok=True)
    directory.rmdir()
    return unsent
