"""What every watcher does: look at a scheduler, send what is new, wait, and look again.

A watcher keeps nothing: events have ids that follow from what they say, so that one which begins
anew sends again what the service has, and counts nothing twice. The marks of what was sent are
there to spare that, no more.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from ett_service.core.errors import EttError
from ett_service.importers.importer import Fact, ImportedRun, names_cluster

_SAY_EVERY_S: Final = 600.0
_FORGET_EVERY_S: Final = 3600.0


class Unavailable(EttError):
    """The scheduler, or the service, did not answer: that says nothing about any job."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is to be seen of a scheduler."""

    marks: Mapping[Any, int]  #: of each job; another one where there is more to say of it
    is_whole: bool  #: whether jobs that are not among them need not be remembered
    note_sent: Callable[[], None] = lambda: None  #: to be called once all of it has been sent


class Source(Protocol):
    """A scheduler that can be looked at."""

    name: str

    def look(self) -> Snapshot:
        """Return the marks of its jobs.

        Raises:
            Unavailable: where it does not answer.
        """

    def runs(self, jobs: Iterable[Any]) -> list[ImportedRun]:
        """Return what there is to say of *jobs* of the latest look. Raises what ``look`` does."""

    def stop(self) -> None:
        """End what goes on between looks."""


@dataclass(frozen=True, slots=True)
class Poll:
    """What came of one look."""

    jobs: int  #: that were to be seen
    news: int  #: of these, the ones that had changed
    events: int  #: that were sent
    seconds: float


class _Sent:
    """Which events have been sent, as hashes: those that came up again within an hour or two."""

    def __init__(self) -> None:
        self._lately: set[int] = set()
        self._before: set[int] = set()
        self._since = time.monotonic()

    def unsent(self, runs: Iterable[ImportedRun]) -> list[ImportedRun]:
        """Return what *runs* say that has not been sent, and again of which cluster that is."""
        return [left for run in runs if (left := self._left(run)).facts]

    def _left(self, run: ImportedRun) -> ImportedRun:
        unsent = [fact for fact in run.facts if not self._has(fact)]
        if not unsent:
            return replace(run, facts=())
        # The service takes what follows for this cluster's, or refuses all of it.
        clusters = [fact for fact in run.facts if names_cluster(fact.event) and fact not in unsent]
        return replace(run, facts=(*clusters[:1], *unsent))

    def _has(self, fact: Fact) -> bool:
        key = hash(fact.event["id"])
        if key not in self._lately and key in self._before:
            self._lately.add(key)
        return key in self._lately

    def add(self, runs: Iterable[ImportedRun]) -> None:
        """Note that *runs* have been sent."""
        if time.monotonic() - self._since > _FORGET_EVERY_S:
            self._since = time.monotonic()
            self._before, self._lately = self._lately, set()
        self._lately.update(hash(fact.event["id"]) for run in runs for fact in run.facts)


@dataclass(slots=True)
class Watcher:
    """Looks at a source every so often; *send* raises :class:`Unavailable` where it cannot."""

    source: Source
    send: Callable[[Iterable[ImportedRun]], None]
    say: Callable[[str], None]
    every_s: float
    report: Callable[[Poll], None] = lambda _: None
    _marks: dict[Any, int] = field(default_factory=dict)
    _sent: _Sent = field(default_factory=_Sent)
    _trouble: str = ""
    _said_at: float = -_SAY_EVERY_S

    def run(self) -> None:
        """Look for ever, at the same distance however long a look takes."""
        due = time.monotonic()
        while True:
            self.try_to_poll()
            due = max(due + self.every_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def try_to_poll(self) -> bool:
        """Look once; trouble is said when it begins, when it changes and when it is over."""
        try:
            poll = self.poll()
        except Unavailable as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                self.say(f"{self._trouble}; nothing is lost, it is tried again")
            return False
        now = time.monotonic()
        if self._trouble or now - self._said_at >= _SAY_EVERY_S:
            self._said_at = now
            self.say(
                f"watching {self.source.name}: {poll.jobs} jobs, {poll.news} new or changed, "
                f"{poll.events} events sent in {poll.seconds:.1f} s"
            )
        self._trouble = ""
        self.report(poll)
        return True

    def poll(self) -> Poll:
        """Look, and send what is new.

        Raises:
            Unavailable: where the scheduler or the service does not answer; all is news again.
        """
        began = time.monotonic()
        look = self.source.look()
        news = [job for job, mark in look.marks.items() if self._marks.get(job) != mark]
        runs = self._sent.unsent(self.source.runs(news))
        self.send(runs)
        self._sent.add(runs)
        look.note_sent()
        if look.is_whole:
            self._marks = dict(look.marks)
        else:
            self._marks.update((job, look.marks[job]) for job in news)
        events = sum(len(run.facts) for run in runs)
        return Poll(len(look.marks), len(news), events, time.monotonic() - began)
