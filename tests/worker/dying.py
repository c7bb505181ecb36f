"""A program whose children deliver, and are killed at the point that they are told.

It reads lines of JSON (``Order``) and forks a child for each, which costs less than a new process
with all that it imports. It prints the child's number, and again when the child is over.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from ett_service.alerting.sender import Sender
from ett_service.storage.engine import Store, open_store
from tests.alerting.telling import delivering, named, pass_over
from tests.worker.rig import Clock

T = TypeVar("T")

NEVER, CLAIMED, UNRECORDED, RECORDED = range(4)
"""Not at all, or once the claim is committed, once the answer is there, once that is committed."""


class Order(NamedTuple):
    """What a child is to do."""

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


def _deliver(database_url: str, receivers: dict[str, str], sender: Sender, order: Order) -> None:
    store = open_store(database_url)
    mortal = MortalStore(store, order.dies)
    told = [named(name, url) for name, url in receivers.items()]
    with delivering(mortal, Clock(order.now_us), told, sender=sender) as deliverer:  # type: ignore[arg-type]
        while pass_over(deliverer):
            pass
    store.close()


def main(database_url: str, receivers: str) -> None:
    """Do what the lines say."""
    sender = Sender()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _deliver(database_url, json.loads(receivers), sender, Order(*json.loads(line)))
            os._exit(0)
        _say(child)
        _, status = os.waitpid(child, 0)
        _say(os.waitstatus_to_exitcode(status))


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
