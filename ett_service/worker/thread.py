"""The life cycle that all threads of the worker share."""

import logging
import threading
import time
from abc import ABC, abstractmethod


class PeriodicThread(ABC):
    """Repeats one step in a thread of its own until it is stopped.

    The thread outlives every error: a step that raises is logged as *failure*, with the log event
    *event*, and repeated after *retry_seconds*.
    """

    def __init__(self, name: str, *, failure: str, event: str, retry_seconds: float = 1.0) -> None:
        self.name = name
        self.stopping = threading.Event()
        self._failure = failure
        self._event = event
        self._retry_seconds = retry_seconds
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        self._began_at = time.monotonic()

    @abstractmethod
    def step(self) -> float:
        """Do what is due, and return how many seconds the next step waits."""

    def finish(self) -> None:  # noqa: B027 - most threads leave nothing behind
        """Clean up after the last step."""

    @property
    def alive(self) -> bool:
        """Whether the thread is at work."""
        return self._thread is not None and self._thread.is_alive()

    def works(self, within_seconds: float) -> bool:
        """Whether the thread runs, and has begun a step in the last so many seconds."""
        return self.alive and time.monotonic() - self._began_at < within_seconds

    def start(self) -> None:
        """Begin the thread."""
        self._thread = threading.Thread(target=self.run, name=f"ett-{self.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Begin the next step at once."""
        self._woken.set()

    def stop_soon(self) -> None:
        """Let the thread end after its present step."""
        self.stopping.set()
        self._woken.set()

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of the thread, for at most *seconds*."""
        if self._thread is not None:
            self._thread.join(seconds)

    def run(self) -> None:
        """Repeat the step in the calling thread until :meth:`stop_soon`."""
        log = logging.getLogger(type(self).__module__)
        failure, extra = self._failure, {"event": self._event}
        while True:
            self._woken.clear()
            if self.stopping.is_set():
                break
            self._began_at = time.monotonic()
            try:
                pause_seconds = self.step()
            except Exception:  # logged, and repeated after a pause
                log.exception(failure, extra=extra)
                self.stopping.wait(self._retry_seconds)
            else:
                self._woken.wait(pause_seconds)
        try:
            self.finish()
        except Exception:  # what is left behind expires by itself
            log.exception(failure, extra=extra)
