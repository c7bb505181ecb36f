"""The time of compiles, from the begins and ends that torch logs: inclusive and exclusive."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ett_service.importers.logs.torch_records import Edge

_Key = tuple[str, str]
"""``(name, compile id)`` of a phase."""


@dataclass(slots=True)
class Spent:
    """Microseconds of one of torch's phases; torch's clock counts quarters of them."""

    inclusive_us: float = 0.0
    exclusive_us: float = 0.0  #: the part in which no phase inside it was open
    begin_us: float = 0.0  #: of the first of them


@dataclass(slots=True)
class Window:
    """A stretch in which a process compiles: an outermost phase with all inside it."""

    begin_us: float
    end_us: float
    outermost: str
    compile_id: str
    line: int  #: that ends it
    phases: dict[str, Spent] = field(default_factory=dict)
    compiles: dict[str, dict[str, Spent]] = field(default_factory=dict)  #: by compile id
    instants: dict[str, dict[str, int]] = field(default_factory=dict)  #: how often, by compile id


class Mispairing(NamedTuple):
    """What is wrong with the pairing of a phase, and where."""

    line: int
    name: str
    is_end: bool  #: whether an end has no begin, else a begin has no end


class Windows:
    """Pairs begins and ends, each thread for itself; events of a window may be out of order."""

    def __init__(self) -> None:
        self.closed: list[Window] = []
        self.flaws: list[Mispairing] = []
        self._seen: set[tuple[float, float, str]] = set()
        self._open: dict[bytes, list[Edge]] = {}
        self._balance: dict[bytes, int] = {}

    def add(self, edge: Edge) -> None:
        """Take the next event of its thread."""
        events = self._open.get(edge.thread)
        if not events:
            if edge.kind == "B":
                self._open[edge.thread] = [edge]
                self._balance[edge.thread] = 1
            elif edge.kind == "E":
                self.flaws.append(Mispairing(edge.line, edge.name, is_end=True))
            return
        if edge[1:6] == events[-1][1:6]:
            return  # a record that was written twice
        events.append(edge)
        if _key(edge) == _key(events[0]) and edge.kind in "BE":
            self._balance[edge.thread] += 1 if edge.kind == "B" else -1
            if self._balance[edge.thread] == 0:
                self._close(self._open.pop(edge.thread))

    def unfinished(self) -> list[tuple[Edge, Edge]]:
        """Return the begin and the last event of windows that have no end yet."""
        return [
            (events[0], max(events, key=lambda event: event.at_us))
            for events in self._open.values()
        ]

    def _close(self, events: list[Edge]) -> None:
        window = Window(
            events[0].at_us, events[-1].at_us, events[0].name, events[0].compile_id, events[-1].line
        )
        identity = (window.begin_us, window.end_us, window.outermost)
        if identity not in self._seen:
            self._seen.add(identity)
            _Pairing(window, self.flaws).add_all(sorted(events, key=lambda event: event.at_us))
            self.closed.append(window)


@dataclass(slots=True)
class _Frame:
    """A phase that is open."""

    begin: Edge
    inside_us: float = 0.0  #: of the phases that it holds itself


class _Pairing:
    """Adds up the phases of one window."""

    def __init__(self, window: Window, flaws: list[Mispairing]) -> None:
        self._window = window
        self._flaws = flaws
        self._stack: list[_Frame] = []

    def add_all(self, events: Iterable[Edge]) -> None:
        for event in events:
            if event.kind == "B":
                self._stack.append(_Frame(event))
            elif event.kind == "E":
                self._end(event)
            else:
                counts = self._window.instants.setdefault(event.compile_id, defaultdict(int))
                counts[event.name] += 1

    def _end(self, end: Edge) -> None:
        place = len(self._stack) - 1
        while place >= 0 and _key(self._stack[place].begin) != _key(end):
            place -= 1
        if place < 0:
            self._flaws.append(Mispairing(end.line, end.name, is_end=True))
            return
        while len(self._stack) > place + 1:
            lost = self._stack.pop()
            self._flaws.append(Mispairing(lost.begin.line, lost.begin.name, is_end=False))
            self._stack[-1].inside_us += lost.inside_us
        self._count(self._stack.pop(), end)

    def _count(self, frame: _Frame, end: Edge) -> None:
        length_us = end.at_us - frame.begin.at_us
        if self._stack:
            self._stack[-1].inside_us += length_us
        of_compile = self._window.compiles.setdefault(end.compile_id, {})
        for phases in (self._window.phases, of_compile):
            spent = phases.setdefault(end.name, Spent(begin_us=frame.begin.at_us))
            spent.inclusive_us += length_us
            spent.exclusive_us += length_us - frame.inside_us
            spent.begin_us = min(spent.begin_us, frame.begin.at_us)


def _key(edge: Edge) -> _Key:
    return edge.name, edge.compile_id
