"""Threads that send events through whatever happens to a service, and check what became of them."""

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from sqlalchemy import func, select

from ett_service.client.sending.transport import Unreachable
from ett_service.core.events import Progress
from ett_service.storage.engine.store import open_for_reading
from ett_service.storage.record import events as stored_events
from ett_service.storage.schema import dirty, job
from tests.builders.record import wire
from tests.builders.servers.ett import Server
from tests.builders.servers.processes import run
from tests.builders.servers.waiting import wait_for
from tests.builders.tally import Tally

A_BATCH = 10
_PAUSE_S = 0.02  #: before the same batch is sent again
_TO_BE_SENT_AGAIN = frozenset({429, 503})


@dataclass
class Senders:
    """Each sends batches to a server, and again until they are acknowledged.

    Two planted defects show that ``Stored`` can fail: a sender that *believes* takes a broken
    connection for an acknowledgement, and one without *ids* sends the same under another id.
    """

    server: Server
    count: int = 4
    believes: bool = False
    ids: bool = True
    acknowledged: set[tuple[str, int]] = field(default_factory=set)  #: job and step
    uncertain: set[tuple[str, int]] = field(default_factory=set)  #: sent when it was stopped
    absorbed: int = 0  #: events that were there already
    surprises: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)  #: 0 without an answer
    broken: list[str] = field(default_factory=list)  #: connections that were made, without answer
    _stopped: threading.Event = field(default_factory=threading.Event)
    _counting: threading.Lock = field(default_factory=threading.Lock)
    _attempts: Iterator[int] = field(default_factory=itertools.count)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send until the end of the block."""
        threads = [
            threading.Thread(target=self._send, args=(f"job-{number}",))
            for number in range(self.count)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def explain(self) -> str:
        """Say what they were answered, and what the server logged last."""
        return f"{self.statuses}\n{self.server.log[-2000:]}"

    def progressed(self) -> Callable[[], bool]:
        """Return what tells whether any batch was acknowledged from now on."""
        before = len(self.acknowledged)
        return lambda: len(self.acknowledged) > before

    def refused(self, count: int) -> Callable[[], bool]:
        """Return what tells whether so many more batches were answered by 503 from now on."""
        before = self.statuses[503]
        return lambda: self.statuses[503] >= before + count

    def _send(self, name: str) -> None:
        for first in itertools.count(1, A_BATCH):
            steps = range(first, first + A_BATCH)
            batch = {(name, step) for step in steps}
            while not self._is_acknowledged(name, steps):
                if self._stopped.wait(_PAUSE_S):
                    with self._counting:
                        self.uncertain |= batch
                    return
            with self._counting:
                self.acknowledged |= batch
            if self._stopped.is_set():
                return

    def _is_acknowledged(self, name: str, steps: range) -> bool:
        mark = "" if self.ids else f"-{next(self._attempts)}"
        events = [
            wire("progress", job=name, step=step, id=f"{name}-{step}{mark}", producer=name)
            for step in steps
        ]
        try:
            answer = self.server.send(events)
        except Unreachable as error:
            self.statuses[0] += 1
            if "refused" not in error.reason.lower():
                self.broken.append(error.reason)
            return self.believes
        self.statuses[answer.status] += 1
        if answer.status != 200:
            if answer.status not in _TO_BE_SENT_AGAIN:
                self.surprises.append(f"{answer.status} {answer.body[:300]!r}")
            return False
        try:
            verdict = json.loads(answer.body)
        except ValueError:  # cut off behind its head
            return self.believes
        if sorted((verdict["accepted"], verdict["duplicate"])) != [0, len(events)]:
            self.surprises.append(f"a batch did not stand as a whole: {answer.body[:300]!r}")
        with self._counting:
            self.absorbed += verdict["duplicate"]
        return True


@dataclass(frozen=True)
class Stored:
    """What a database has of what was sent."""

    lost: int  #: acknowledged, and not there
    double_counted: int  #: there more than once
    unexplained: int  #: there, and neither acknowledged nor on its way

    @classmethod
    def by(cls, senders: Senders) -> "Stored":
        """Compare what the database of their server has with what they know."""
        rows = steps_of(senders.server.database_url)
        sent = senders.acknowledged | senders.uncertain
        return cls(
            lost=len(senders.acknowledged - rows.keys()),
            double_counted=rows.total() - len(rows),
            unexplained=len(rows.keys() - sent),
        )


def check(senders: Senders, tally: Tally) -> None:
    """Require that all was kept, once, and that every number follows from it."""
    stored = Stored.by(senders)
    tally.add(acknowledged=len(senders.acknowledged), absorbed=senders.absorbed)
    assert senders.surprises == []
    assert senders.server.key not in senders.server.log
    assert stored.unexplained == 0
    assert senders.acknowledged
    tally.require_none(lost=stored.lost, double_counted=stored.double_counted)
    wait_for(lambda: marks(senders.server.database_url) == 0)
    verified(senders.server)


def verified(server: Server) -> None:
    """Recompute every job and rollup of a server that runs, and require no difference."""
    done = run("verify", "--fleet", folder=server.folder, environment=server.environment)
    assert done.returncode == 0, done.stdout + done.stderr


def marks(database_url: str) -> int:
    """Count the marks that wait for the worker."""
    with closing(open_for_reading(database_url)) as store, store.reading() as conn:
        return conn.execute(select(func.count()).select_from(dirty)).scalar_one()


def steps_of(database_url: str) -> Counter[tuple[str, int]]:
    """Return how often each step of each job is there."""
    steps: Counter[tuple[str, int]] = Counter()
    with closing(open_for_reading(database_url)) as store, store.reading() as conn:
        for project_id, name in conn.execute(select(job.c.project_id, job.c.job)).all():
            facts = stored_events.events(conn, project_id, name)
            steps.update((name, each.step) for each in facts if isinstance(each, Progress))
    return steps
