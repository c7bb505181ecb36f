"""Several processes that serve one socket, so that a server uses more than one processor."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

log = logging.getLogger(__name__)

_PAUSE_S = 1.0  #: before a process takes the place of one that was killed
_STOPPING = (signal.SIGINT, signal.SIGTERM)


def run(number: int, be: Callable[[], object]) -> None:
    """Fork so many processes that each call *be*, and wait until SIGINT or SIGTERM ended them.

    The calling process must have one thread. A process that is killed is replaced; one that ends
    by itself ends all.

    Raises:
        SystemExit: One failed; with its exit code.
    """
    processes = _Processes(be)
    for _ in range(number):
        processes.fork()
    code = processes.wait()
    if code:
        raise SystemExit(code)


class _Processes:
    def __init__(self, be: Callable[[], object]) -> None:
        self._be = be
        self._running: set[int] = set()
        self._stopping = False
        # Its reading end is at its end once this process is gone, however it ends.
        self._life, self._own_life = os.pipe()
        for each in _STOPPING:
            signal.signal(each, self._stop)

    def fork(self) -> None:
        # A signal waits until the process is known here, and until it has handlers of its own.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        pid = os.fork()
        if not pid:
            os.close(self._own_life)
            _be_child(self._be, self._life)
        self._running.add(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        if self._stopping:  # before it was begun
            os.kill(pid, signal.SIGTERM)

    def wait(self) -> int:
        """Wait for the end of all, and return the first exit code that is not 0."""
        failed = 0
        while self._running:
            pid, status = os.wait()
            self._running.discard(pid)
            code = os.waitstatus_to_exitcode(status)
            if self._stopping:
                if code != -signal.SIGTERM:  # which ends one that does not serve yet
                    failed = failed or code
            elif code < 0:
                log.error(
                    "A process of the server was killed by signal %d; another takes its place.",
                    -code,
                    extra={"event": "process_killed", "signal": -code},
                )
                time.sleep(_PAUSE_S)
                self.fork()
            else:
                failed = failed or code
                self._stop()
        return failed

    def _stop(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        self._stopping = True
        for pid in list(self._running):
            os.kill(pid, signal.SIGTERM)


def _be_child(be: Callable[[], object], life: int) -> None:
    """Call *be*, and exit as a program does; never return to the caller's frames."""
    code: object = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        threading.Thread(target=_end_with_parent, args=(life,), daemon=True).start()
        be()
        code = 0
    except SystemExit as error:
        code = error.code or 0
    except BaseException:  # logged, and told by the exit code
        log.exception("A process of the server failed.", extra={"event": "failed"})
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _end_with_parent(life: int) -> None:
    os.read(life, 1)
    os.kill(os.getpid(), signal.SIGTERM)
