"""The log of Slurm's controller, followed: what was added to it since the last look."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ett_service.importers.files import Unreadable, opened
from ett_service.importers.instants import machine_zone
from ett_service.importers.slurm.clock import Clock
from ett_service.importers.slurm.preemptions import Preemptions, preemptions_of

_MOST_AT_FIRST: Final = 64 << 20  #: of a log that has grown for months
_AT_ONCE: Final = 1 << 20


def _local() -> Clock:
    return Clock(machine_zone())


@dataclass(slots=True)
class ControllerLog:
    """The preemptions in the log at *path*, if there is one; its times are of this machine."""

    path: Path | None = None
    preemptions: Preemptions = field(default_factory=Preemptions)
    _clock: Clock = field(default_factory=_local)
    _inode: int = 0
    _at: int = 0  #: up to where it was read: the begin of a line

    def read(self) -> str:
        """Read what is new; return why it cannot be read, empty where it can.

        A log that was rotated, or cut, is read from its begin.
        """
        if self.path is None:
            return ""
        try:
            self._read(self.path)
        except OSError as error:
            return f"{self.path}: {error.strerror or 'cannot be read'}"
        except Unreadable as error:
            return f"{self.path}: {error}"
        return ""

    def _read(self, path: Path) -> None:
        with opened(path) as file:
            state = path.stat()
            if state.st_ino != self._inode or state.st_size < self._at:
                is_first = not self._inode
                self._inode = state.st_ino
                self._at = max(0, state.st_size - _MOST_AT_FIRST) if is_first else 0
            file.seek(self._at)
            while block := file.read(_AT_ONCE):
                end = block.rfind(b"\n") + 1
                if not end and len(block) < _AT_ONCE:
                    return
                for preemption in preemptions_of(block[:end].split(b"\n"), self._clock):
                    self.preemptions.add(preemption)
                self._at += end or len(block)
                file.seek(self._at)
