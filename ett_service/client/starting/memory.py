"""What the kernel has killed for want of memory, by the counter of a control group.

A process that it kills says nothing, and its exit looks like any other SIGKILL.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_SIGKILL = 9
_PROC = Path("/proc/self")
_COUNTED_IN = {"cgroup2": "memory.events", "cgroup": "memory.oom_control"}
_COUNTER = "oom_kill"


class MemoryKills:
    """Counts what the kernel kills in the control group of this process, its children included."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._counted = killed_for_memory(proc)

    def since(self) -> int:
        """Return how many it has killed since the last time; 0 where nothing counts them."""
        before, self._counted = self._counted, killed_for_memory(self._proc)
        return max((self._counted or 0) - before, 0) if before is not None else 0


def killed_for_memory(proc: Path = _PROC) -> int | None:
    """Return what the control group of a process counts, None where none does.

    *proc* is the process's folder under ``/proc``.
    """
    with suppress(OSError, ValueError):
        for path in _counters(proc):
            if path.is_file():
                counts = (line.split() for line in path.read_text("ascii").splitlines())
                return next((int(count) for name, count in counts if name == _COUNTER), None)
    return None


def as_evidence(ending: dict[str, Any], kills: int) -> dict[str, Any]:
    """Return the members of an end by SIGKILL with what names the kernel as its sender, if any."""
    if not kills or _SIGKILL not in (ending.get("signal"), (ending.get("exit_code") or 0) - 128):
        return ending
    return {**ending, "message": f"{_COUNTER} of the control group rose by {kills}: out of memory"}


def _counters(proc: Path) -> Iterator[Path]:
    """Yield where the counter may stand, that of cgroup v2 first.

    A container may see its own group as the root of what is mounted.
    """
    groups = dict(_groups(proc))
    mounts = sorted(_mounts(proc), key=lambda mount: list(_COUNTED_IN).index(mount[0]))
    for kind, root, mounted_at in mounts:
        if kind in groups:
            group = Path(groups[kind])
            below = group.relative_to(root) if group.is_relative_to(root) else Path()
            yield mounted_at / below / _COUNTED_IN[kind]


def _groups(proc: Path) -> Iterator[tuple[str, str]]:
    for line in (proc / "cgroup").read_text("utf-8", "replace").splitlines():
        number, controllers, group = line.split(":", 2)
        if number == "0":
            yield "cgroup2", group
        elif "memory" in controllers.split(","):
            yield "cgroup", group


def _mounts(proc: Path) -> Iterator[tuple[str, str, Path]]:
    for line in (proc / "mountinfo").read_text("utf-8", "replace").splitlines():
        mount, _, kind = line.partition(" - ")
        name, *_, options = kind.split(" ")
        if name == "cgroup2" or (name == "cgroup" and "memory" in options.split(",")):
            root, mounted_at = mount.split(" ")[3:5]
            yield name, root, Path(mounted_at)
