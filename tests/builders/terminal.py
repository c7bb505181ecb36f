"""A terminal of a given width, and what a program shows on it."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence

from tests.builders.servers.waiting import PATIENCE_S


def shown(command: Sequence[str], columns: int, environment: Mapping[str, str]) -> str:
    """Run *command* on a terminal of so many columns and return what it writes there.

    Raises:
        AssertionError: It fails.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen(command, stdout=theirs, env=_unsized(environment)) as process:
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:
            while part := terminal.read(1 << 16):
                written += part
        assert process.wait(PATIENCE_S) == 0
    return written.decode().replace("\r\n", "\n")


def _unsized(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
