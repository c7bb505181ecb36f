"""Files of OTLP traces, as the Collector's file exporter writes them, to wire events.

They take the way of ``POST /v1/traces``: the same mapping, and a span that cannot be taken is left
out alone. It lies here, since importers know nothing of what the server reads.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ett_service.cli.verb import now_us
from ett_service.core.intervals import rfc3339
from ett_service.importers.files import Unreadable, files_under, opened, pieces_of
from ett_service.importers.importer import Fact, ImportedRun, Report, WireEvent, distinct
from ett_service.ingest.decode import decode, inflate
from ett_service.ingest.otlp.events import BEGIN, END, Conversion, Speaker, convert, process_facts
from ett_service.ingest.otlp.json_spans import read_json
from ett_service.ingest.otlp.protobuf_spans import read_protobuf
from ett_service.ingest.otlp.spans import ResourceSpans
from ett_service.ingest.refusals import Refusal, Refused
from ett_service.ingest.wire import Limits

FILES: Final = ("*.json", "*.jsonl", "*.pb", "*.proto", "*.binpb", "*.json.gz", "*.jsonl.gz")
"""The files that are looked for in a folder."""

_MOST_BYTES: Final = 16 << 20  #: of a message
_UNBOUNDED: Final = 1 << 40
_LIMITS = Limits(_UNBOUNDED, _UNBOUNDED, _UNBOUNDED)
_JSON_BODY = {"content-type": "application/json"}
_PREFIX: Final = 4  #: bytes that tell the length of the message that follows them
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_GZIP: Final = b"\x1f\x8b"
_FIRST: Final = rfc3339(0)
_KEY: Final = 49  #: characters of an id that name its span: ids in hexadecimal, and a colon
_OWN: Final = ("id", "at", "start", "step")
_MOST_KNOWN: Final = 20_000
_GROUPS: Final = b"\x0a"  #: what a request in protobuf begins with


class _Message(NamedTuple):
    """A request of OTLP, and where in its file it lies."""

    number: int  #: its line, or its place in a binary file, from 1
    body: bytes | None  #: None where it is too long or cut


class _Check:
    """What the service would refuse of events that were made of spans.

    They are much alike. Their instants are looked at here, and no id and no step is made that it
    would refuse; what else they say is checked once for all that say the same.
    """

    def __init__(self) -> None:
        self._right: set[tuple[object, ...] | None] = set()
        self._latest = rfc3339(now_us() + _LIMITS.max_future_us)

    def refusals(self, events: Sequence[WireEvent]) -> dict[int, Refusal]:
        """Return what is refused, by the places of the events."""
        said = [self._said(event) for event in events]
        unknown = [place for place, each in enumerate(said) if each not in self._right]
        firsts = {said[place]: place for place in reversed(unknown)}
        refused: dict[int, Refusal] = {}
        for asked in (firsts.values(), unknown):
            places = [each for each in asked if said[each] not in self._right]
            if places:
                refused.update(self._asked(events, said, places))
        return dict(sorted(refused.items()))

    def _asked(
        self,
        events: Sequence[WireEvent],
        said: Sequence[tuple[object, ...] | None],
        places: Sequence[int],
    ) -> dict[int, Refusal]:
        body = json.dumps({"events": [events[place] for place in places], "history": True}).encode()
        batch = decode(body, _JSON_BODY, now_us=now_us(), limits=_LIMITS)
        refused = {places[each.index or 0]: each for each in batch.refusals}
        if len(self._right) + len(places) > _MOST_KNOWN:
            self._right.clear()
        self._right.update(
            each for place in places if place not in refused and (each := said[place]) is not None
        )
        return refused

    def _said(self, event: WireEvent) -> tuple[object, ...] | None:
        """Return what an event shares with others; None where it is to be looked at by itself."""
        if "attributes" in event:
            return None
        for name in ("at", "start"):
            if not _FIRST <= event.get(name, _FIRST) <= self._latest:
                return None
        shared = event.copy()
        for name in _OWN:
            shared.pop(name, None)
        return (event["id"][_KEY:], *shared.items())


def read(paths: Sequence[Path], job: str | None = None) -> tuple[Iterator[ImportedRun], Report]:
    """Read files of traces and folders of them; with *job*, all spans are of that one."""
    report = Report()
    return distinct(_all_runs(paths, job, report)), report


def _all_runs(paths: Sequence[Path], job: str | None, report: Report) -> Iterator[ImportedRun]:
    opened: set[str] = set()
    check = _Check()
    for path in files_under(paths, FILES, report):
        has_spans = False
        try:
            for message in _messages(path):
                for run in _runs(path, message, job, opened, check, report):
                    has_spans = True
                    yield run
        except Unreadable as error:
            report.miss(path, str(error))
            continue
        if has_spans:
            report.files += 1
        else:
            report.miss(path, "no span that names a job")


def _messages(path: Path) -> Iterator[_Message]:
    """Raises ``Unreadable`` where the file cannot be read."""
    first = next(pieces_of(path), (1, b""))[1]
    if first[:1] == _GROUPS and first.strip()[:1] != b"{":
        yield _Message(1, _whole(path))
    elif first[:1] == b"\0":
        yield from _framed(path)
    elif first.strip() == b"{":
        yield _over_lines(path)
    else:
        yield from _lines(path)


def _lines(path: Path) -> Iterator[_Message]:
    """A message may be longer than the pieces in which lines come."""
    pieces: list[bytes] = []
    size = 0
    number = 1
    for number, piece in pieces_of(path):
        size += len(piece)
        if size <= _MOST_BYTES:
            pieces.append(piece)
        if piece.endswith(b"\n"):
            yield _Message(number, b"".join(pieces) if size <= _MOST_BYTES else None)
            pieces, size = [], 0
    if size:
        yield _Message(number, b"".join(pieces) if size <= _MOST_BYTES else None)


def _over_lines(path: Path) -> _Message:
    """Return the one request of a file that a person, or a program for people, has indented."""
    body = bytearray()
    for _, piece in pieces_of(path):
        body += piece
        if len(body) > _MOST_BYTES:
            return _Message(1, None)
    return _Message(1, bytes(body))


def _whole(path: Path) -> bytes | None:
    with _unpacked(path) as file:
        body = file.read(_MOST_BYTES + 1)
    return body if len(body) <= _MOST_BYTES else None


def _unpacked(path: Path) -> BinaryIO:
    file = opened(path)
    if file.peek(2)[:2] == _GZIP:
        file.close()
        raise Unreadable("a binary file inside gzip: unpack it first")
    return file


def _framed(path: Path) -> Iterator[_Message]:
    number = 0
    with _unpacked(path) as file:
        while prefix := file.read(_PREFIX):
            number += 1
            length = int.from_bytes(prefix, "big")
            body = file.read(length) if length <= _MOST_BYTES else b""
            if not length or len(prefix) < _PREFIX or len(body) < length:
                yield _Message(number, None)
                return
            yield _Message(number, body)


def _runs(
    path: Path,
    message: _Message,
    job: str | None,
    opened: set[str],
    check: _Check,
    report: Report,
) -> Iterator[ImportedRun]:
    """What a message says, a run for each job."""
    try:
        groups = _groups(message)
    except Refused as error:
        report.skip(path, message.number, str(error))
        return
    _count(path, message, groups, report)
    conversion = convert(groups if job is None else [_named(group, job) for group in groups])
    if conversion.nameless:
        what = f"{conversion.nameless} spans name no job, the first on line {message.number}"
        report.note(path, what)
    by_job: dict[str, list[WireEvent]] = defaultdict(list)
    for event in _continued(_events(conversion), opened):
        by_job[job or event["job"]].append(event if job is None else {**event, "job": job})
    for name, events in by_job.items():
        facts = tuple(
            [Fact(each, message.number) for each in _taken(path, message, events, check, report)]
        )
        if facts:
            yield ImportedRun(path, name, facts)


def _count(path: Path, message: _Message, groups: Sequence[ResourceSpans], report: Report) -> None:
    report.records += sum(len(group.spans) for group in groups)
    for code in (code for group in groups for code in group.refused):
        report.skip(path, message.number, f"{code.value} in a span")


def _named(group: ResourceSpans, job: str) -> ResourceSpans:
    return replace(group, resource={**group.resource, "ett.job": job})


def _groups(message: _Message) -> list[ResourceSpans]:
    """Raises ``Refused`` for what is no request."""
    if message.body is None:
        raise Refused("a message that is cut, or longer than 16 MiB")
    body = inflate(message.body, "zstd", 4 * _MOST_BYTES) if _is_zstd(message) else message.body
    is_json = body.lstrip()[:1] == b"{"
    return read_json(body, _UNBOUNDED) if is_json else read_protobuf(body, _UNBOUNDED)


def _is_zstd(message: _Message) -> bool:
    return message.body is not None and message.body.startswith(_ZSTD)


def _events(conversion: Conversion) -> Iterator[WireEvent]:
    for speaker in conversion.speakers:  # they say of which cluster a launch is
        yield from _of_process(conversion, speaker)
    yield from conversion.events


def _of_process(conversion: Conversion, speaker: Speaker) -> Iterator[WireEvent]:
    events = [conversion.events[place] for place in speaker.events]
    firsts = [min(each.get("start", each["at"]), each["at"]) for each in events]
    begun = [
        first for first, each in zip(firsts, events, strict=True) if each.get("phase") != "queued"
    ]
    if firsts:
        yield from process_facts(speaker, min(firsts), min(begun, default=None))


def _continued(events: Iterator[WireEvent], opened: set[str]) -> Iterator[WireEvent]:
    """A span whose begin was read while it was open needs its end only."""
    for event in events:
        if event["type"] == "phase_started":
            opened.add(event["id"])
        elif event["type"] == "span" and event["id"] + BEGIN in opened:
            members = {name: value for name, value in event.items() if name != "start"}
            opened.discard(event["id"] + BEGIN)
            yield {**members, "type": "phase_ended", "id": event["id"] + END}
            continue
        yield event


def _taken(
    path: Path, message: _Message, events: list[WireEvent], check: _Check, report: Report
) -> Iterator[WireEvent]:
    """Leave out what the service would refuse, and name it."""
    refused = check.refusals(events)
    for each in refused.values():
        report.skip(path, message.number, f"{each.code.value} in {each.pointer.rsplit('/', 1)[-1]}")
    return (event for place, event in enumerate(events) if place not in refused)
