"""Reading a spool back: what is unsent, how far the server has it, who owns it."""

import fcntl
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ett_service.client.sending.seals import Unsealing
from ett_service.client.sending.spool import ACKED, OWNER, PROGRESS, REFUSED, importance

_REFUSED_LIMIT = 1 << 20

#: Every line ends with its instant.
_GARBLED_END = re.compile(rb'(?<=Z"\}).(?=\{")', re.DOTALL)

_LINES_A_TURN = 100
"""Read in a fraction of a millisecond, for which a call of the trainer waits at most."""

_ACKED_BYTES = 256
"""Of ``acked.json``, blanks included: so that nothing of a longer one is left behind."""

_KEPT_BYTES = 32 << 20
_KEPT_SECONDS = 86_400.0
"""Of what the server has: a live process keeps it for a store that is restored from a backup."""

_ROOM_BYTES = 1 << 30
"""On a disk with less than that free, nothing is kept."""

_SETTLING_SECONDS = 1.0
"""How long after its last write a live segment may still be written to, by a slow thread."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a spool: before this byte of this segment everything is settled."""

    segment: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Some whole lines of a spool, and where they end."""

    lines: tuple[bytes, ...]  #: the events, as the server takes them
    end: Position
    unreadable: int = 0  #: lines that were torn or garbled, and skipped


@dataclass(slots=True)
class Backlog:
    """The unsent part of one spool directory.

    ``alive`` says that its process may still append to the last segment, whose last line may
    therefore be half written.
    """

    directory: Path
    alive: bool
    position: Position = field(default_factory=Position)
    epoch: str = ""  #: of the store that has what is settled
    sent: int = 0  #: events that this store has of it
    _seals: Unsealing = field(init=False)
    _thinned: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        base_us = self.owner.get("base_us")
        whole = base_us if isinstance(base_us, int) else None
        self._seals = Unsealing(self.directory.name, whole)
        with suppress(OSError, ValueError, TypeError):
            acknowledged = json.loads((self.directory / ACKED).read_text(encoding="ascii"))
            self.position = Position(int(acknowledged["segment"]), int(acknowledged["offset"]))
            self.epoch = str(acknowledged.get("epoch", ""))
            self.sent = int(acknowledged.get("sent", 0))

    @property
    def owner(self) -> dict[str, Any]:
        """What the process said of itself when it made the spool; empty if that is garbled."""
        with suppress(OSError, ValueError):
            owner = json.loads((self.directory / OWNER).read_text(encoding="utf-8"))
            if isinstance(owner, dict):
                return owner
        return {}

    def next_piece(self, count: int, size: int) -> Piece | None:
        """Return up to *count* lines in about *size* bytes, None where nothing is unsent.

        Raises ``OSError`` where the spool cannot be read.
        """
        segments = self._segments()
        for place, number in enumerate(segments):
            offset = self.position.offset if number == self.position.segment else 0
            path = self._path(number)
            last = place + 1 == len(segments)
            lines = _read(path, offset, count, size, complete=not (last and self.alive))
            if lines:
                return self._piece(lines, Position(number, offset), last=last)
            if self.alive and time.time() - path.stat().st_mtime < _SETTLING_SECONDS:
                break
        return None

    def unsent_bytes(self) -> int:
        """How much of the spool the server has not settled, in bytes."""
        total = 0
        for number in self._segments():
            with suppress(OSError):
                total += self._path(number).stat().st_size
            if number == self.position.segment:
                total -= self.position.offset
        return max(total, 0)

    def thin(self, excess: int) -> int:
        """Give up the oldest progress and signs of life, until *excess* bytes are free.

        Only segments that are closed and wholly unsent are thinned, each once. Returns how many
        lines were given up. Raises ``OSError`` where the disk takes no shorter segment.
        """
        given_up = 0
        for number in self._segments()[:-1]:
            if excess <= 0:
                break
            if number == self.position.segment or number in self._thinned:
                continue
            if time.time() - self._path(number).stat().st_mtime < _SETTLING_SECONDS:
                break
            self._thinned.add(number)
            lines = self._path(number).read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if importance(line) > PROGRESS]
            if len(kept) < len(lines):
                given_up += len(lines) - len(kept)
                excess -= sum(map(len, lines)) - sum(map(len, kept))
                self._replace(number, b"".join(kept))
        return given_up

    def expire(self, before_s: float) -> int:
        """Give up the closed segments that were last written before an instant of the wall clock.

        Returns how many unsent lines were in them. Raises ``OSError``.
        """
        segments, given_up = self._segments(), 0
        for number in segments[:-1] if self.alive else segments:
            path = self._path(number)
            if path.stat().st_mtime < before_s:
                given_up += self._lines_in(number)
                path.unlink()
        return given_up

    def _replace(self, number: int, content: bytes) -> None:
        path = self._path(number)
        written_at = path.stat().st_mtime
        thinner = path.with_suffix(".thin")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(thinner, flags, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(fd)
            os.utime(thinner, (written_at, written_at))
            thinner.replace(path)
        except OSError:
            thinner.unlink(missing_ok=True)
            raise

    def unsent_lines(self) -> int:
        """How many lines the server has not settled."""
        return sum(map(self._lines_in, self._segments()))

    def _lines_in(self, number: int) -> int:
        """How many lines of a segment the server has not settled."""
        with suppress(OSError), self._path(number).open("rb") as segment:
            segment.seek(self.position.offset if number == self.position.segment else 0)
            return sum(1 for _ in segment)
        return 0

    def advance(self, end: Position, epoch: str = "") -> None:
        """Remember that the store *epoch* has everything before *end*, and give back the disk.

        A live process keeps what was settled of late, in case that store is lost and an older
        copy of it restored. Raises ``OSError`` where the disk cannot be given back; where the
        place cannot be written, the lines are sent again, which the server absorbs.
        """
        self.position = end
        self.epoch = epoch or self.epoch
        for number in self._expendable():
            self._path(number).unlink()  # first, as a full disk may take no more than that
        self._remember()

    def rewind(self, epoch: str) -> None:
        """Let everything that is kept be sent again, to the store *epoch*."""
        self.position = Position()
        self.epoch = epoch
        self.sent = 0
        self._remember()

    def _remember(self) -> None:
        """Overwrite what stands there: a disk that is full has room for that."""
        end = self.position
        place = {"segment": end.segment, "offset": end.offset}
        acknowledged = {**place, "epoch": self.epoch, "sent": self.sent}
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            fd = os.open(self.directory / ACKED, flags, 0o600)
            try:
                os.pwrite(fd, json.dumps(acknowledged).encode().ljust(_ACKED_BYTES), 0)
            finally:
                os.close(fd)

    def _expendable(self) -> list[int]:
        """Return the settled segments that need not be kept for a store that loses them."""
        settled = [number for number in self._all_segments() if number < self.position.segment]
        room = os.statvfs(self.directory)
        if not self.alive or room.f_bavail * room.f_frsize < _ROOM_BYTES:
            return settled
        expendable, kept_bytes, since_s = [], 0, time.time() - _KEPT_SECONDS
        for number in reversed(settled):
            segment = self._path(number).stat()
            kept_bytes += segment.st_size
            if kept_bytes > _KEPT_BYTES or segment.st_mtime < since_s:
                expendable.append(number)
        return expendable

    def refuse(self, refused: Iterable[tuple[bytes, str]]) -> None:
        """Keep lines that the server will never take, each with its reason, up to 1 MiB."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.directory / REFUSED, flags, 0o600)
        try:
            for line, reason in refused:
                if os.fstat(fd).st_size < _REFUSED_LIMIT:
                    rejected = f'{{"reason":{json.dumps(reason)},"event":'.encode() + line + b"}\n"
                    os.write(fd, rejected)
        finally:
            os.close(fd)

    def discard(self) -> None:
        """Remove a spool that is settled; what was refused stays for its owner to read."""
        unfinished = self.directory.glob("*.thin")  # its process died in that
        for path in [*map(self._path, self._all_segments()), *unfinished, self.directory / ACKED]:
            path.unlink(missing_ok=True)
        (self.directory / OWNER).unlink(missing_ok=True)
        if not (self.directory / REFUSED).exists():
            self.directory.rmdir()

    def _piece(self, lines: Sequence[bytes], start: Position, *, last: bool) -> Piece:
        """Leave out what is no event.

        Where a write failed halfway, its process has kept the whole line in memory and gone on in
        a new segment: so the end of an earlier segment is no loss.
        """
        unsealed = self._seals.event
        events: list[bytes] = []
        garbled: list[bytes] = []
        for place, line in enumerate(lines):
            if place % _LINES_A_TURN == 0:
                time.sleep(0)  # the trainer's threads may be waiting for the interpreter
            if (event := unsealed(line)) is not None:
                events.append(event)
                continue
            for part in _GARBLED_END.split(line):
                if (event := unsealed(part)) is not None:
                    events.append(event)
                elif (last or not _is_torn(part)) and not (garbled and _is_rest(part, garbled[-1])):
                    garbled.append(part)
        end = Position(start.segment, start.offset + sum(map(len, lines)))
        return Piece(tuple(events), end, len(garbled))

    def _segments(self) -> list[int]:
        return [number for number in self._all_segments() if number >= self.position.segment]

    def _all_segments(self) -> list[int]:
        names = (path.stem for path in self.directory.glob("*.jsonl"))
        return sorted(int(name) for name in names if name.isdigit())

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:06d}.jsonl"


def spools(root: Path) -> list[Path]:
    """Every spool directory under *root*, at any depth, *root* itself included."""
    # Path.rglob raises where another process removes a directory meanwhile.
    folders = (Path(folder) for folder, _, files in os.walk(root) if OWNER in files)
    return sorted(path for path in folders if not path.name.startswith("."))


@contextmanager
def adopted(directory: Path) -> Iterator[Backlog | None]:
    """Hold the spool of a dead process; yields None if it is in use or gone."""
    try:
        fd = os.open(directory / OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield Backlog(directory, alive=False) if _lock(fd) else None
    finally:
        os.close(fd)


def unsent_lines(root: Path) -> int:
    """How many lines dead processes have left under *root*."""
    count = 0
    for directory in spools(root):
        with adopted(directory) as backlog:
            count += 0 if backlog is None else backlog.unsent_lines()
    return count


def sent_lines(root: Path, launch: str) -> int:
    """How many events of a launch the server has of the spools that dead processes left."""
    count = 0
    for directory in spools(root):
        with adopted(directory) as backlog:
            if backlog is not None and backlog.owner.get("launch") == launch:
                count += backlog.sent
    return count


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    # Someone else may have sent and removed it between our opening and our locking.
    return os.fstat(fd).st_nlink > 0


def _read(path: Path, offset: int, count: int, size: int, *, complete: bool) -> list[bytes]:
    """Return so many lines in about *size* bytes; the last may be cut off where all is written."""
    lines: list[bytes] = []
    left = size
    with path.open("rb") as file:
        file.seek(offset)
        for line in islice(file, count):
            left -= len(line)
            if (left < 0 and lines) or not (complete or line.endswith(b"\n")):
                break
            lines.append(line)
    return lines


def _is_torn(line: bytes) -> bool:
    return not line.endswith(b"\n")


def _is_rest(line: bytes, before: bytes) -> bool:
    """Whether a newline that came from nowhere parts two pieces of one line."""
    return not before.endswith(b'"}\n') and not line.startswith(b'{"')
