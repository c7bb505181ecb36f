"""What every importer is: a function from paths to runs of wire events and a report of the rest.

A format's module has a function ``read``: from paths, and a name if all of them are one job, to
runs and a report. Nothing is read before the first run is asked for, and no more is held than the
runs of one file. What files hold raises nothing; a path that cannot be read is named in the report.

Names and texts of logs are made such as events can have them.
"""

import json
import pickle
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any, overload

import msgspec
from typing_extensions import override

from ett_service.core.intervals import rfc3339
from ett_service.ingest.members import CLUSTER_OF_LAUNCH

WireEvent = dict[str, Any]
"""An event as ``POST /v1/events`` takes it."""

_PACK = 1_000
_PACKED_FROM = 20_000
"""Facts of a run; it is imported whole or not at all, so that all have to be held."""

_NO_ASCII = b"\xff"
_DIGEST = 16  #: bytes of a digest in an id
_AT_ONCE = 500  #: events that are digested
_SHOWN = 5
_MOST_REMARKS = 1000
_LONGEST_TEXT = 200
_LONGEST_REMARK = 1000


class Fact(msgspec.Struct, frozen=True, gc=False):
    """An event, and the line of its file that says so."""

    event: WireEvent
    line: int = 0  #: counted from 1; 0 where no line does


class PackedFacts(Sequence[Fact]):
    """Facts of a large run, deflated a thousand at a time: they take a fifth of the memory."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._packs: list[bytes] = []
        self._count = 0
        self.content = 0  #: the sum of what the ids hash to
        each = iter(facts)
        while pack := [(fact.line, fact.event) for fact in islice(each, _PACK)]:
            self._packs.append(zlib.compress(pickle.dumps(pack), level=1))
            self._count += len(pack)
            self.content += sum([hash(event["id"]) for _, event in pack])

    @override
    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Fact: ...
    @overload
    def __getitem__(self, place: slice) -> list[Fact]: ...
    @override
    def __getitem__(self, place: int | slice) -> Fact | list[Fact]:
        if isinstance(place, int):
            number = range(self._count)[place]
            return next(islice(self._unpacked(number), 1))
        start, stop, step = place.indices(self._count)
        return list(islice(self._unpacked(start), max(0, stop - start)))[::step]

    @override
    def __iter__(self) -> Iterator[Fact]:
        return self._unpacked(0)

    def _unpacked(self, start: int) -> Iterator[Fact]:
        first, skipped = divmod(start, _PACK)
        for pack in islice(self._packs, first, None):
            facts = pickle.loads(zlib.decompress(pack))  # noqa: S301 -- of our own memory
            for line, event in islice(facts, skipped, None):
                yield Fact(event, line)
            skipped = 0


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """All that a file says of one run. It is imported whole or not at all."""

    path: Path
    job: str
    facts: Sequence[Fact]

    @property
    def events(self) -> list[WireEvent]:
        """The events of the facts, in their order."""
        return [fact.event for fact in self.facts]


@dataclass(slots=True)
class Report:
    """What came of the files. It grows while the runs are consumed."""

    files: int = 0  #: in which something was found
    records: int = 0  #: that were read
    skipped: int = 0  #: lines that could not be read, and records without a usable instant
    first_skipped: list[str] = field(default_factory=list)  #: ``path:line: why``, a few
    unread: list[str] = field(default_factory=list)  #: ``path: why``, files that gave nothing
    unfinished: list[str] = field(default_factory=list)  #: ``path: why``, runs to import later
    refused: list[str] = field(default_factory=list)  #: ``path:line: why``, runs not to import
    notes: list[str] = field(default_factory=list)  #: what was read but could not be used
    unlisted: int = 0  #: remarks beyond the first thousand of a kind

    def skip(self, path: Path, line: int, why: str) -> None:
        """Count a line that could not be read; lines count from 1."""
        self.skipped += 1
        if len(self.first_skipped) < _SHOWN:
            self.first_skipped.append(clean(f"{path}:{line}: {why}", _LONGEST_REMARK))

    def miss(self, path: Path, why: str) -> None:
        """Name a file or folder that gave nothing."""
        self._remark(self.unread, f"{path}: {why}")

    def postpone(self, path: Path, why: str) -> None:
        """Name a run that cannot be imported yet."""
        self._remark(self.unfinished, f"{path}: {why}")

    def refuse(self, path: Path, line: int, why: str) -> None:
        """Name a run that is not imported at all, and the line that is the reason."""
        self._remark(self.refused, f"{path}:{line}: {why}")

    def note(self, path: Path, what: str) -> None:
        """Remark, once, on what was read but could not be used."""
        self._remark(self.notes, f"{path}: {what}")

    def add(self, other: "Report") -> None:
        """Add what came of other files."""
        self.files += other.files
        self.records += other.records
        self.skipped += other.skipped
        self.unlisted += other.unlisted
        self.first_skipped = [*self.first_skipped, *other.first_skipped][:_SHOWN]
        for name in ("unread", "unfinished", "refused", "notes"):
            remarks = getattr(self, name)
            for remark in getattr(other, name):
                self._remark(remarks, remark)

    def _remark(self, remarks: list[str], text: str) -> None:
        remark = clean(text, _LONGEST_REMARK)
        if len(remarks) >= _MOST_REMARKS:
            self.unlisted += 1
        elif remark not in remarks:
            remarks.append(remark)


def names_cluster(event: WireEvent) -> bool:
    """Whether an event says of which cluster its launch is, and the events that follow it."""
    return CLUSTER_OF_LAUNCH in event.get("attributes", ())


def identified(source: str, facts: Iterable[Fact]) -> Sequence[Fact]:
    """Give each event an id made from its content, and keep each id once.

    The same log imported again, from another folder or within a longer copy, is the same events.
    """
    known: set[bytes] = set()
    distinct_facts = _identified(source, facts, known)
    few = tuple(islice(distinct_facts, _PACKED_FROM))
    return few if len(few) < _PACKED_FROM else PackedFacts(chain(few, distinct_facts))


def _identified(source: str, facts: Iterable[Fact], known: set[bytes]) -> Iterator[Fact]:
    each = iter(facts)
    while some := list(islice(each, _AT_ONCE)):
        digests = digests_of([fact.event for fact in some])
        for fact, digest in zip(some, digests, strict=True):
            if digest not in known:
                known.add(digest)
                yield Fact({"id": f"{source}-{digest.hex()}", **fact.event}, fact.line)


def distinct(runs: Iterable[ImportedRun]) -> Iterator[ImportedRun]:
    """Pass on each run once, wherever its copies lie."""
    seen = set()
    for run in runs:
        facts = run.facts
        # Ids are digests already, and their sum needs no list of them and no order.
        of_ids = (
            facts.content
            if isinstance(facts, PackedFacts)
            else sum([hash(fact.event["id"]) for fact in facts])
        )
        content = hash((len(facts), of_ids))
        if content not in seen:
            seen.add(content)
            yield run


def digests_of(events: Sequence[WireEvent]) -> list[bytes]:
    """Digest the JSON of each event with sorted keys, all but ASCII escaped.

    msgspec writes the same text sooner, and of many events at once sooner still.
    """
    try:
        lines = _sorted_lines(events)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can hold and UTF-8 cannot
        if len(events) > 1:
            return [digest for event in events for digest in digests_of([event])]
        lines = _NO_ASCII
    texts = lines.splitlines()
    if lines.isascii():
        return [sha256(text).digest()[:_DIGEST] for text in texts]
    return [
        sha256(text if text.isascii() else _escaped(event)).digest()[:_DIGEST]
        for event, text in zip(events, texts, strict=True)
    ]


def _escaped(event: WireEvent) -> bytes:
    return json.dumps(event, sort_keys=True, separators=(",", ":")).encode()


_sorted_lines = msgspec.json.Encoder(order="sorted").encode_lines


def clean(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Make text from a log fit to send: no controls, no lone surrogates, not too long."""
    if text.isprintable():
        return text.strip()[:longest]
    safe = text.encode("utf-8", "replace").decode("utf-8")
    printable = "".join(" " if unicodedata.category(c).startswith("C") else c for c in safe)
    return printable.strip()[:longest]


_LONGEST_JOB = 200
_NO_JOBS = ("", ".", "..")
_DAMAGED = "\ufffd"


def word(text: str, longest: int = 200) -> str:
    """Return *text* as members of events can have it: one printable line; it may be empty."""
    safe = (each if each.isprintable() and each != _DAMAGED else " " for each in text)
    return unicodedata.normalize("NFC", "".join(safe)).strip()[:longest].strip()


def job_name(text: str, otherwise: str) -> str:
    """Return *text* as a job can be called, without ``/``; *otherwise* where none is left."""
    name = word(text.replace("/", "-"), _LONGEST_JOB)
    return otherwise if name in _NO_JOBS else name


def launch_name(begin_us: int) -> str:
    """Name a launch that its log does not name, by its begin: ``20260801T120000.000000Z``."""
    return re.sub(r"[-:]", "", rfc3339(begin_us))
