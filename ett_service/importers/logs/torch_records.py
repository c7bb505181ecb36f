"""The lines of ``TORCH_TRACE`` as records: which of them time a compile, and what they say.

A record is a line such as ``V1206 15:18:15.925000 1500233 torch/_dynamo/utils.py:1288] {...}``;
its payload follows in lines that begin with a tab. Of a trace only what times compiles is read.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ett_service.importers.files import blocks_of
from ett_service.importers.importer import Report

_LONGEST_PAYLOAD: Final = 1 << 23
_FIRST_US: Final = 946_684_800_000_000  #: 2000; what lies before is a clock that was never set
_LAST_US: Final = 253_402_300_799_000_000  #: the end of the year 9999
_METRICS: Final = (b'"compilation_metrics', b'"bwd_compilation_metrics')
_WITH_PAYLOAD: Final = (b'"chromium_event"', b'"artifact": {"name": "recompile_reasons"')
_TAB: Final = ord("\t")
_NO_PAYLOAD = re.compile(rb"\n(?!\t)")


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
        self._report.records += 1
        if body.startswith(_WITH_PAYLOAD):
            self._open = _Open(number, prefix.split(b" ", 3)[2], b"{" + body)
        others: list[TraceRecord] = [] if ended is None else [ended]
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
