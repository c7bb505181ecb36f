"""A program whose children deliver, and are killed at a given point.

It reads lines of JSON (``Order``) and forks a child for each, which costs less than a new process
with all that it imports. It prints the child's number, and again when the child is over.
"""

import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, create_engine

from ett_service.notifications.sender import Sender
from ett_service.storage.engine.store import Store, open_store
from tests.builders.clock import Clock
from tests.builders.receivers.deliveries import delivering, named, run_once

T = TypeVar("T")

NEVER, CLAIMED, UNRECORDED, RECORDED = range(4)
"""Not at all, or once the claim is committed, once the answer is there, once that is committed."""


class Order(NamedTuple):
    """What a child is to do."""

    database_url: str
    receiver_url: str
    now_us: int
    dies: int


@dataclass
class MortalStore:
    """A store whose process dies at its first, before its second or at its second commit."""

    store: Store
    dies: int
    writes: int = 0

    def write(self, work: Callable[[Connection], T]) -> T:
        """Write, or die."""
        self.writes += 1
        if self.dies == UNRECORDED and self.writes > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        written = self.store.write(work)
        if (self.dies, self.writes) in {(CLAIMED, 1), (RECORDED, 2)}:
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    def reading(self) -> AbstractContextManager[Connection]:
        """Read as ever."""
        return self.store.reading()

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


def _deliver(sender: Sender, order: Order) -> None:
    store = open_store(order.database_url)
    mortal = MortalStore(store, order.dies)
    receivers = [named("a", order.receiver_url)]
    with delivering(mortal, Clock(order.now_us), receivers, sender=sender) as deliverer:  # type: ignore[arg-type]
        while run_once(deliverer):
            pass
    store.close()


def main() -> None:
    """Do what the lines say."""
    sender = Sender()
    for driver in ("sqlite://", "postgresql+psycopg://"):
        create_engine(driver)  # imports it before anybody forks
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _deliver(sender, Order(*json.loads(line)))
            os._exit(0)
        _say(child)
        _, status = os.waitpid(child, 0)
        _say(os.waitstatus_to_exitcode(status))


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
