"""What every importer is: a function from paths to wire events and a report of what was read."""

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WireEvent = dict[str, Any]
"""An event as ``POST /v1/events`` takes it."""

_SHOWN = 5
_LONGEST_TEXT = 200
_LONGEST_REMARK = 1000


@dataclass(slots=True)
class Report:
    """What came of the files. It grows while the events are consumed."""

    files: int = 0  #: in which something was found
    records: int = 0  #: that were read
    skipped: int = 0  #: lines that could not be read, and records without a usable instant
    first_skipped: list[str] = field(default_factory=list)  #: ``path:line: why``, a few
    unread: list[str] = field(default_factory=list)  #: ``path: why``, files that gave nothing
    notes: list[str] = field(default_factory=list)  #: what was read but could not be used

    def skip(self, path: Path, line: int, why: str) -> None:
        """Count a line that could not be read; lines count from 1."""
        self.skipped += 1
        if len(self.first_skipped) < _SHOWN:
            self.first_skipped.append(clean(f"{path}:{line}: {why}", _LONGEST_REMARK))

    def miss(self, path: Path, why: str) -> None:
        """Name a file or folder that gave nothing."""
        self.unread.append(clean(f"{path}: {why}", _LONGEST_REMARK))

    def note(self, path: Path, what: str) -> None:
        """Remark, once, on what was read but could not be used."""
        remark = clean(f"{path}: {what}", _LONGEST_REMARK)
        if remark not in self.notes:
            self.notes.append(remark)


Importer = Callable[[Sequence[Path], str | None], tuple[Iterator[WireEvent], Report]]
"""Paths, and a name if all of them are one job, to events and report.

Nothing is read before the first event is asked for. What files hold raises nothing; a path that
cannot be read is named in the report.
"""


def identified(source: str, events: Iterable[WireEvent]) -> Iterator[WireEvent]:
    """Give each event an id made from its content, and pass on each id once.

    The same log imported again, from another folder or within a longer copy, is the same events.
    """
    seen = set()
    for event in events:
        content = json.dumps(event, sort_keys=True, separators=(",", ":"), allow_nan=False)
        identity = f"{source}-{hashlib.sha256(content.encode()).hexdigest()[:32]}"
        if identity not in seen:
            seen.add(identity)
            yield {"id": identity, **event}


def batches(events: Iterable[WireEvent], most: int) -> Iterator[list[WireEvent]]:
    """Cut the stream of events into lists of at most *most*."""
    batch: list[WireEvent] = []
    for event in events:
        batch.append(event)
        if len(batch) == most:
            yield batch
            batch = []
    if batch:
        yield batch


def clean(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Make text from a log fit to send: no controls, no lone surrogates, not too long."""
    safe = text.encode("utf-8", "replace").decode("utf-8")
    printable = "".join(" " if unicodedata.category(c).startswith("C") else c for c in safe)
    return printable.strip()[:longest]
