"""The lines of ``TORCH_TRACE`` as records, and the time of compiles: inclusive and exclusive.

A record is a line such as ``V1206 15:18:15.925000 1500233 torch/_dynamo/utils.py:1288] {...}``;
its payload follows in lines that begin with a tab. Of a trace only what times compiles is read.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ett_service.importers.files import blocks_of
from ett_service.importers.importer import Report

_LONGEST_PAYLOAD: Final = 1 << 23
_FIRST_US: Final = 946_684_800_000_000  #: 2000; what lies before is a clock that was never set
_LAST_US: Final = 253_402_300_799_000_000  #: the end of the year 9999
_METRICS: Final = (b'"compilation_metrics', b'"bwd_compilation_metrics')
_THREAD: Final = 2
"""The place of the thread in a prefix, behind the day and the time."""

_WITH_PAYLOAD: Final = (b'"chromium_event"', b'"artifact": {"name": "recompile_reasons"')
_TAB: Final = ord("\t")
_NO_PAYLOAD = re.compile(rb"\n(?!\t)")

_Key = tuple[str, str]
"""``(name, compile id)`` of a phase."""


class Edge(NamedTuple):
    """An event of torch's clock of compiles: the begin or end of a phase, or an instant."""

    thread: bytes
    kind: str  #: ``B``, ``E`` or ``i``
    name: str
    at_us: float
    compile_id: str
    varying: str  #: of an instant: the source that torch has seen vary, ``L['x']:0``
    line: int


class Metrics(NamedTuple):
    """What torch measured of one compile."""

    values: dict[str, Any]
    compile_id: str
    line: int


class Reason(NamedTuple):
    """Why a frame is compiled again."""

    text: str
    compile_id: str
    line: int


class Rank(NamedTuple):
    """The rank whose process wrote the trace."""

    number: int
    line: int


TraceRecord = Edge | Metrics | Reason | Rank


class _Args(msgspec.Struct):
    compile_id: str = ""
    name: str = ""
    dim_changed: str | int | None = None


class _Event(msgspec.Struct):
    name: str
    ts: float
    ph: str
    args: _Args | None = None


class _Header(msgspec.Struct):
    frame_id: int | None = None
    frame_compile_id: int | None = None
    rank: int | None = None

    @property
    def compile_id(self) -> str:
        return "" if self.frame_id is None else f"{self.frame_id}/{self.frame_compile_id or 0}"


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_header = msgspec.json.Decoder(_Header).decode


class _Open(NamedTuple):
    """A record whose payload is still to come."""

    line: int
    thread: bytes
    body: bytes


def records_of(path: Path, report: Report) -> Iterator[TraceRecord]:
    """Yield what times compiles; lines that are no trace, or are cut, are skipped and named.

    Raises:
        Unreadable: where the file cannot be read to its end.
    """
    reader = _Reader(path, report)
    for number, block in blocks_of(path):
        place = 0
        while place < len(block):
            if block[place] == _TAB:
                following = _NO_PAYLOAD.search(block, place)
                end = len(block) if following is None else following.end()
                reader.keep(block[place:end])
            else:
                end = block.find(b"\n", place) + 1 or len(block)
                yield from reader.records(number, block[place:end])
            number += block.count(b"\n", place, end)  # noqa: PLW2901 -- it counts on
            place = end
    yield from reader.records(0, b"\n")


class _Reader:
    """Puts records and their payloads together."""

    def __init__(self, path: Path, report: Report) -> None:
        self._path = path
        self._report = report
        self._open: _Open | None = None
        self._payload: list[bytes] = []
        self._size = 0
        self._rank: int | None = None

    def keep(self, piece: bytes) -> None:
        if self._open is not None and self._size < _LONGEST_PAYLOAD:
            self._payload.append(piece)
            self._size += len(piece)

    def records(self, number: int, piece: bytes) -> Sequence[TraceRecord]:
        """Return what is complete now that a line without a tab begins."""
        ended = self._flushed() if self._open is not None else None
        prefix, mark, body = piece.partition(b"] {")
        if not mark or not prefix[1:5].isdigit():
            if not piece.isspace():
                self._skip(number, "no record of a torch trace")
            return () if ended is None else (ended,)
        others: list[TraceRecord] = [] if ended is None else [ended]
        if body.startswith(_WITH_PAYLOAD):
            fields = prefix.split(b" ", 3)
            if len(fields) <= _THREAD:
                self._skip(number, "no record of a torch trace")
                return others
            self._open = _Open(number, fields[_THREAD], b"{" + body)
        self._report.records += 1
        if self._rank is None and b'"rank": ' in body:
            others += self._ranked(number, body)
        if body.startswith(_METRICS):
            others += self._metrics(number, b"{" + body)
        return others

    def _flushed(self) -> TraceRecord | None:
        """Return the record whose payload is complete; None where it is damaged."""
        record, payload = self._open, b"".join(self._payload)
        assert record is not None
        self._open, self._payload, self._size = None, [], 0
        if record.body.startswith(b'{"artifact'):
            return self._reason(record, payload)
        try:
            event = _decode_event(payload)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._skip(record.line, "the event in its payload is cut or damaged")
            return None
        if not _FIRST_US <= event.ts < _LAST_US:
            self._skip(record.line, f"its clock was not set: ts {event.ts!r}")
            return None
        args = event.args or _Args()
        place = args.compile_id, _varying(args), record.line
        return Edge(record.thread, event.ph, event.name, event.ts, *place)

    def _ranked(self, number: int, body: bytes) -> Iterator[Rank]:
        header = self._header(number, b"{" + body)
        if header is not None and header.rank is not None:
            self._rank = header.rank
            yield Rank(header.rank, number)

    def _reason(self, record: _Open, payload: bytes) -> Reason | None:
        header = self._header(record.line, record.body)
        text = payload.decode("utf-8", "replace").strip()
        if header is None or not text:
            return None
        return Reason(_first(text), header.compile_id, record.line)

    def _metrics(self, number: int, body: bytes) -> Iterator[Metrics]:
        header = self._header(number, body)
        if header is None:
            return
        values = next(iter(json.loads(body).values()))
        if isinstance(values, dict):
            yield Metrics(values, str(values.get("compile_id") or header.compile_id), number)

    def _header(self, number: int, body: bytes) -> _Header | None:
        try:
            json.loads(body)
            return _decode_header(body)
        except (ValueError, msgspec.DecodeError, RecursionError):
            self._skip(number, "its JSON is cut or damaged")
            return None

    def _skip(self, number: int, why: str) -> None:
        self._report.skip(self._path, number, why)


def _varying(args: _Args) -> str:
    """Name what torch has seen vary, as its own settings do."""
    if not args.name or args.dim_changed is None:
        return ""
    dimension = str(args.dim_changed)
    return f"{args.name}:{dimension}" if dimension.isdigit() else args.name


def _first(text: str) -> str:
    """Return the first of the reasons, which torch writes as one text or as a list of them."""
    try:
        reasons = json.loads(text)
    except ValueError:
        return text
    return str(reasons[0]) if isinstance(reasons, list) and reasons else str(reasons)


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
