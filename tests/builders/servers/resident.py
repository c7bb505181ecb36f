"""The memory of a process, as the system counts it."""

from pathlib import Path

_RESET_PEAK = "5"


def resident_mib(pid: int) -> int:
    """Return what a process holds in memory, in MiB."""
    return _status_mib(pid, "VmRSS")


def forget_peak(pid: int) -> int:
    """Let the peak begin anew, and return what the process holds, in MiB."""
    Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)
    return resident_mib(pid)


def peak_mib(pid: int) -> int:
    """Return the most that a process has held since ``forget_peak``, in MiB."""
    return _status_mib(pid, "VmHWM")


def _status_mib(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) >> 10
    raise LookupError(name)
