"""The instants of one process: the wall clock read once, the monotonic clock ever after.

So a stepped wall clock moves no duration, and every instant that a process names, the sending of
a batch included, lies on one line.
"""

import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

#: Counts through a suspended machine where the system has such a clock.
CLOCK_ID: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

MICRO = 1_000_000


def mono_us() -> int:
    """Read the monotonic clock, in microseconds."""
    return time.clock_gettime_ns(CLOCK_ID) // 1000


def wall_base_us() -> int:
    """What to add to ``mono_us`` to get microseconds since the Unix epoch, as of now."""
    return time.time_ns() // 1000 - mono_us()


def rfc3339(at_us: int) -> str:
    """Write microseconds since the Unix epoch as RFC 3339 in UTC, with six decimals."""
    seconds, micros = divmod(at_us, MICRO)
    return f"{second_text(seconds)}{micros:06d}Z"


def second_text(seconds: int) -> str:
    """Everything of an instant that stays the same for a second, the point included."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.")


def boot_id() -> str:
    """Name this boot of this machine; empty where the system does not say."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def process_started_us(pid: int) -> int | None:
    """When a process began, on the clock of ``mono_us``, to 10 ms; None where unknown."""
    if CLOCK_ID == time.CLOCK_MONOTONIC:
        return None
    with suppress(OSError, ValueError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        # The command's name may hold blanks and brackets; what counts comes after the last one.
        ticks = int(stat.rpartition(")")[2].split()[19])
        return ticks * MICRO // os.sysconf("SC_CLK_TCK")
    return None
