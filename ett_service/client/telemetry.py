"""What recording takes of the training thread, as far as timing it costs less than it does.

Timed are ``ett.init``, the events that calls write but for the begin and end of phases, and what
the hooks into PyTorch do. Phases and ``ett.step`` cost about as much as timing them would.
"""

import time
from threading import get_ident

from ett_service.client.clock import CLOCK_ID

Begun = tuple[int, int]
"""Nanoseconds of the clock, and those counted by then: a part is not counted beside the whole."""


class Cost:
    """The time of one thread, in nanoseconds; what other threads do is not counted."""

    __slots__ = ("ns", "thread")

    def __init__(self) -> None:
        self.ns = 0
        self.thread = 0  #: of the trainer; 0 while nobody trains here

    def count_here(self) -> None:
        """Count what this thread does from now on."""
        self.thread = get_ident()

    @property
    def is_counted(self) -> bool:
        """Whether a thread trains here."""
        return self.thread != 0

    def begin(self) -> Begun:
        """Begin to time something."""
        return time.clock_gettime_ns(CLOCK_ID), self.ns

    def end(self, begun: Begun) -> None:
        """Count what was begun, with all that it called."""
        if get_ident() == self.thread:
            began_ns, before = begun
            self.ns = before + time.clock_gettime_ns(CLOCK_ID) - began_ns
