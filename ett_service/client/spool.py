"""The spool: an append-only file of one process, in its own directory, written before any network.

``<root>/<job>/<producer>/`` holds ``owner.json`` (locked while its process lives), numbered
segments of one event a line, ``acked.json`` (how far the server has them) and ``refused.jsonl``.
"""

import fcntl
import hashlib
import json
import os
import re
import threading
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ett_service.client.clock import boot_id

OWNER = "owner.json"
ACKED = "acked.json"
REFUSED = "refused.jsonl"

LIMIT = 64 << 20
"""Bytes of unsent events that a process keeps on disk."""

_SEGMENT = 4 << 20
_RESERVE = 8 << 20
"""What only edges may fill: progress and heartbeats are dropped first."""

_RING = 1000


def default_root(env: Mapping[str, str]) -> Path:
    """Where spools lie: ``ETT_SPOOL``, else the user's directory for such state."""
    if named := env.get("ETT_SPOOL"):
        return Path(named).absolute()
    state = env.get("XDG_STATE_HOME") or (env["HOME"] + "/.local/state" if "HOME" in env else "")
    return Path(state or f"/var/tmp/{os.getuid()}") / "ett" / "spool"  # noqa: S108 -- directories are made 0700


def job_directory(root: Path, job: str) -> Path:
    """Where the spools of one job lie; the digest keeps apart what the readable part may not."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", job)[:60].lstrip(".")
    return root / f"{readable}-{hashlib.sha256(job.encode()).hexdigest()[:8]}"


def segment_name(number: int) -> str:
    """Name a segment so that the names sort."""
    return f"{number:06d}.jsonl"


class Spool:
    """Takes lines from any thread; what ``write`` has taken survives the death of the process.

    Where the disk takes nothing, the last lines are kept in memory instead. Every line that is
    given up is counted in ``dropped``, by reason.
    """

    def __init__(self, directory: Path, facts: Mapping[str, object], limit: int = LIMIT) -> None:
        self.directory = directory
        self.ring: deque[bytes] = deque()
        self.dropped: Counter[str] = Counter()
        self.written = 0  #: bytes on disk so far
        self.released = 0  #: of these, what the server has; moved by the sender
        self._limit = limit
        self._lock = threading.RLock()
        self._number = 0
        self._room = 0
        self._fd = -1
        self._owner = -1
        with suppress(OSError):
            self._owner = _claim(directory, {**facts, "boot_id": boot_id()})
            self._turn()

    def write(self, line: bytes, *, droppable: bool = False) -> None:
        """Keep one line. Raises nothing for a disk that fails."""
        with self._lock:
            size = len(line)
            if (size <= self._room and not droppable) or self._has_room(size, droppable=droppable):
                self._append(line, size)

    def close(self) -> None:
        """Let go of the files, and of the lock that says that this process lives."""
        with self._lock:
            for fd in (self._fd, self._owner):
                if fd >= 0:
                    with suppress(OSError):
                        os.close(fd)
            self._fd = self._owner = -1

    def abandon(self) -> None:
        """Close in a forked child what belongs to its parent, without its lock's help."""
        self._lock = threading.RLock()
        self.close()

    def _append(self, line: bytes, size: int) -> None:
        try:
            done = os.write(self._fd, line)
        except OSError:
            self._remember(line)
            return
        self.written += done
        self._room -= done
        if done != size:
            # Half a line stands at the end of the segment: what follows goes into a new one.
            self._room = 0
            self._remember(line)

    def _has_room(self, size: int, *, droppable: bool) -> bool:
        """Make room for a line, or count that there is none."""
        unsent = self.written - self.released
        if unsent + size > self._limit - (_RESERVE if droppable else 0):
            self.dropped["spool_full"] += 1
            return False
        if size > self._room:
            with suppress(OSError):
                self._turn()
        return True

    def _turn(self) -> None:
        """Begin a new segment. Raises ``OSError``."""
        path = self.directory / segment_name(self._number + 1)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        old, self._fd = self._fd, fd
        self._number += 1
        self._room = _SEGMENT
        if old >= 0:
            os.close(old)

    def _remember(self, line: bytes) -> None:
        if len(self.ring) >= _RING:
            self.dropped["memory_full"] += 1
            self.ring.popleft()
        self.ring.append(line)


def _claim(directory: Path, facts: Mapping[str, object]) -> int:
    """Make the directory, locked from its first instant on, and return the lock. ``OSError``."""
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = directory.with_name(f".{directory.name}")
    draft.mkdir(mode=0o700)
    fd = os.open(draft / OWNER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(fd, json.dumps(facts).encode())
        draft.rename(directory)
    except OSError:
        os.close(fd)
        raise
    return fd
