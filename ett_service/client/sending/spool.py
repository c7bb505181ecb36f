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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ett_service.client.clock import boot_id
from ett_service.client.guard import warn_once

OWNER = "owner.json"
ACKED = "acked.json"
REFUSED = "refused.jsonl"

LIMIT = 64 << 20
"""Bytes of unsent events that a process keeps on disk."""

SEGMENT = 4 << 20
"""Bytes after which a new segment begins."""

_FOR_EDGES = 4 << 20
"""What the begins and ends of phases may fill beyond it: progress and heartbeats go first."""

_FOR_FACTS = 8 << 20
"""What the facts of an attempt may: that it began, failed or ended, its checkpoints, its job."""

_RING = 1000

PROGRESS, EDGE, FACT = range(3)
"""How much a line matters: what matters less is given up first, of that the oldest."""

_TYPE = b'"type":"'
_KINDS = {
    b"progress": PROGRESS,
    b"heartbeat": PROGRESS,
    b"phase_started": EDGE,
    b"phase_ended": EDGE,
    b"span": EDGE,
    b"": EDGE,
}

_sync = getattr(os, "fdatasync", os.fsync)  # not every system has the cheaper one


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


def importance(line: bytes) -> int:
    """Return how much a line matters by its type, which stands before all that others named."""
    return _KINDS.get(line.partition(_TYPE)[2].partition(b'"')[0], FACT)


def segment_name(number: int) -> str:
    """Name a segment so that the names sort."""
    return f"{number:06d}.jsonl"


class Spool:
    """Takes lines from any thread; what ``write`` has taken survives the death of the process, and
    what was there at a ``sync`` that of the machine.

    Where the disk takes nothing, the last lines are kept in memory instead. Every line that is
    given up is counted in ``dropped``, by reason. ``tend`` is to be called about once a second.
    """

    def __init__(
        self,
        directory: Path,
        facts: Mapping[str, object],
        *,
        limit: int = LIMIT,
        segment: int = SEGMENT,
    ) -> None:
        self.directory = directory
        self._memory: tuple[deque[bytes], ...] = (deque(), deque(), deque())  # by importance
        self.dropped: Counter[str] = Counter()  #: in all
        self._dropping = threading.RLock()  # a signal's handler may record, too
        self.full = False  #: progress and signs of life are dropped
        self._has_room = True  #: for facts
        self.fd = -1  #: where lines go; the number stays the same while segments change beneath it
        self.limit = limit  #: bytes of unsent events on disk
        self._segment = segment
        self._number = 0
        self.is_closed = False  #: others may own the folder
        self._opened = -1
        self._synced = 0  #: bytes of the segment that survive the machine
        self._owner = -1
        with suppress(OSError):
            self._owner = _claim(directory, {**facts, "boot_id": boot_id()})
            self._turn()

    def write(self, line: bytes) -> None:
        """Keep one line. Raises nothing for a disk that fails."""
        try:
            if os.write(self.fd, line) == len(line):
                return
        except OSError:
            pass
        self.remember(line)

    def write_droppable(self, line: bytes) -> None:
        """Keep one line that is given up before others are, when the spool fills up."""
        if self.full:
            self.give_up(1, "spool_full")
        else:
            self.write(line)

    def write_fact(self, line: bytes) -> None:
        """Keep one line that has room after others have none."""
        try:
            if self._has_room and os.write(self._opened, line) == len(line):
                return
        except OSError:
            pass
        self.remember(line)

    @property
    def ring(self) -> list[bytes]:
        """The lines in memory, what matters most first, and of that the oldest."""
        return [line for lines in reversed(self._memory) for line in tuple(lines)]

    def give_up(self, count: int, reason: str) -> None:
        """Count lines that are nowhere any more."""
        with self._dropping:
            self.dropped[reason] += count

    def remember(self, line: bytes) -> None:
        """Keep in memory what the disk did not take, at least not whole."""
        warn_once(
            f"events cannot be written to {self.directory}: {_RING} are kept in memory, others are "
            "lost, progress first; free the disk, or set ETT_SPOOL to another folder",
            about="the spool",
        )
        self._memory[importance(line)].append(line)
        self._trim()
        if self.fd >= 0:
            # Half of it may stand at the end of the segment: what follows goes into a new one.
            with suppress(OSError):
                if os.fstat(self._opened).st_size:
                    self._turn()

    def take(self, count: int) -> list[bytes]:
        """Take the first lines out of the memory, so many at most."""
        taken: list[bytes] = []
        for lines in reversed(self._memory):
            with suppress(IndexError):  # another thread may drop lines meanwhile
                while len(taken) < count:
                    taken.append(lines.popleft())
        return taken

    def put_back(self, lines: Sequence[bytes]) -> None:
        """Keep in memory again what was taken, as what has been there longest."""
        for line in reversed(lines):
            self._memory[importance(line)].appendleft(line)
        self._trim()

    def tend(self, unsent: int) -> None:
        """Begin a new segment where this one is long, and mind the limit.

        ``unsent`` counts the bytes on disk that the server does not have.
        """
        if self.is_closed:
            return  # a sender that was given up comes back late, and others may own it by now
        self.full = unsent > self.limit
        self._has_room = unsent <= self.limit + _FOR_FACTS
        self.fd = -1 if unsent > self.limit + _FOR_EDGES else self._opened
        with suppress(OSError):
            if self._opened < 0:
                self._turn()
            elif os.fstat(self._opened).st_size >= self._segment:
                self._turn_over()

    def sync(self) -> None:
        """Have what is on disk survive the crash of the machine as well. Raises ``OSError``."""
        size = os.fstat(self._opened).st_size
        if size == self._synced:
            return
        _sync(self._opened)
        if not self._synced:
            _sync_names(self.directory)
        self._synced = size

    def close(self) -> None:
        """Let go of the files, and of the lock that says that this process lives."""
        with self.closing():
            pass

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Let go of the files, and after the block of the lock: until then nobody adopts them."""
        self.is_closed = True
        opened, owner = self._opened, self._owner
        # Forgotten first: their numbers may be a file of the trainer's as soon as they are closed.
        self.fd = self._opened = self._owner = -1
        _close(opened)
        try:
            yield
        finally:
            _close(owner)

    def _trim(self) -> None:
        with self._dropping:
            while sum(map(len, self._memory)) > _RING:
                next(filter(None, self._memory)).popleft()
                self.dropped["memory_full"] += 1

    def _turn_over(self) -> None:
        """Begin a new segment, and have the one before survive the machine. ``OSError``."""
        before = os.dup(self._opened)
        try:
            self._turn()
            _sync(before)
        finally:
            os.close(before)

    def _turn(self) -> None:
        """Begin a new segment. Raises ``OSError``."""
        path = self.directory / segment_name(self._number + 1)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        self._number += 1
        self._synced = 0
        if self._opened < 0:
            self.fd = self._opened = fd
        else:
            # A thread that is just writing writes to the one file or to the other.
            os.dup2(fd, self._opened, inheritable=False)
            os.close(fd)


def _close(fd: int) -> None:
    if fd >= 0:
        with suppress(OSError):
            os.close(fd)


def _sync_names(directory: Path) -> None:
    """Have the files of a spool be found after the crash of the machine. Raises ``OSError``."""
    for folder in (directory, *directory.parents[:2]):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


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
