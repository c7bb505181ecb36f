"""Any log to wire events, by a profile of named patterns.

Patterns are those of RE2: they take time in proportion to a line's length, whatever they are.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from ett_service.core.errors import EttError
from ett_service.importers.files import blocks_of, lines_in, pieces_of, runs_of
from ett_service.importers.importer import ImportedRun, Report, WireEvent, clean
from ett_service.importers.logs.checked_events import NoEvent, fault_of
from ett_service.importers.logs.event_shapes import Template, Values
from ett_service.importers.logs.local_times import LocalTimes
from ett_service.importers.logs.mapped_events import (
    BadProfile,
    Becomes,
    Document,
    MadeOfLine,
    Maker,
    Name,
    Runs,
    loaded,
    references_of,
    templates,
)

_FILES: Final = ["*.log", "*.log.gz", "*.out", "*.txt"]
_MEMORY: Final = 64 << 20
_NAMED = re.compile(r"(?<!\\)\(\?P?<\w+>")
_ENDS_OF_TEXT = re.compile(r"\\[AzC]|\(\?\w*-\w*m")


class NoEngine(EttError):
    """The engine of patterns is not installed."""


class Pattern(Struct, forbid_unknown_fields=True):
    """A kind of line, and the events that it becomes."""

    name: Name
    match: str
    becomes: Template | list[Template]


class CheckedLine(Struct, forbid_unknown_fields=True):
    """A line of the profile's own test."""

    line: str
    pattern: str | None = None  #: the name of the first that matches; None where none does
    becomes: list[Template] = field(default_factory=list)
    path: str = "example.log"


class LogDocument(Document, kw_only=True):
    """A profile as its file has it."""

    path: str | None = None  #: a pattern of the file's path, whose groups all events may take
    patterns: list[Pattern]
    check: list[CheckedLine]


@dataclass(frozen=True, slots=True)
class _ReadyPattern:
    """A pattern that is ready for use."""

    name: str
    match: Any
    groups: list[int]
    becomes: Becomes


class Profile:
    """A profile that is ready for use."""

    def __init__(self, path: Path) -> None:
        """Read the profile at *path*.

        Raises:
            BadProfile: where it cannot be used.
            NoEngine: where google-re2 is not installed.
        """
        self.document, self.zone = loaded(path, LogDocument)
        self._where = str(path)
        engine, options = _engine()
        self._path_match = None
        of_path: list[str] = []
        if self.document.path is not None:
            self._path_match = self._compiled(engine, options, self.document.path, "path")
            of_path = [name for name, _ in _groups(self._path_match)]
        self._search = engine.Set.SearchSet(options)
        self._any = self._of_blocks(engine, options)
        self._kinds = [
            self._kind(engine, options, each, of_path) for each in self.document.patterns
        ]
        if not self._kinds:
            raise BadProfile(f"{path}: it has no patterns")
        self._search.Compile()

    def _kind(
        self, engine: Any, options: Any, pattern: Pattern, of_path: list[str]
    ) -> _ReadyPattern:
        where = f"{self._where}: pattern {pattern.name}"
        match = self._compiled(engine, options, pattern.match, f"pattern {pattern.name}")
        self._search.Add(pattern.match.encode())
        made = templates(pattern.becomes, self.document.common, where)
        groups = _groups(match)
        # Of a name that both have, the group of the line is the later.
        places = {
            name: place for place, name in enumerate([*of_path, *(name for name, _ in groups)])
        }
        for name in sorted(references_of(made) - places.keys()):
            raise BadProfile(f"{where}: ${name} is no group of its `match` or of `path`")
        return _ReadyPattern(
            pattern.name, match, [place for _, place in groups], Becomes(made, places)
        )

    def _compiled(self, engine: Any, options: Any, pattern: str, where: str) -> Any:
        try:
            return engine.compile(pattern.encode(), options)
        except engine.error as error:
            why = clean(_reason(error))
            raise BadProfile(f"{self._where}: {where}: {why} (RE2 knows no lookaround)") from None

    def _of_blocks(self, engine: Any, options: Any) -> Any:
        """Return what finds the next line that some pattern may have; None if only lines tell."""
        matches = [pattern.match for pattern in self.document.patterns]
        if any(_ENDS_OF_TEXT.search(match) for match in matches):
            return None
        options.never_capture = True
        unnamed = "|".join(f"(?:{_NAMED.sub('(?:', match)})" for match in matches)
        try:
            return engine.compile(f"(?m:{unnamed})".encode(), options)
        except engine.error:
            return None  # one of them is wrong, which is said where it is read alone
        finally:
            options.never_capture = False

    def lines_of(self, path: Path) -> Iterator[tuple[int, bytes]]:
        """Yield lines that a pattern may have, with their numbers; others cost next to nothing.

        Raises:
            Unreadable: where the file cannot be read to its end.
        """
        if self._any is None:
            yield from pieces_of(path)
            return
        for number, block in blocks_of(path):
            # In a block an end of a line is a line feed alone.
            is_plain = b"\r" not in block
            yield from self._in_block(number, block) if is_plain else lines_in(number, block)

    def _in_block(self, number: int, block: bytes) -> Iterator[tuple[int, bytes]]:
        begin = counted = 0
        while begin < len(block):
            hit = self._any.search(block, begin)
            if hit is None:
                return
            begin = block.rfind(b"\n", begin, hit.start()) + 1 or begin
            end = block.find(b"\n", hit.start()) + 1 or len(block)
            number += block.count(b"\n", counted, begin)
            counted = begin
            yield number, block[begin:end]
            begin = end

    def of_path(self, path: str) -> Values:
        """Return what the path of a file says; its values go before those of a line."""
        if self._path_match is None:
            return []
        name = os.fsencode(path)
        hit = self._path_match.search(name)
        groups = [place for _, place in _groups(self._path_match)]
        return [None] * len(groups) if hit is None else _values(name, hit, groups)

    def kind_of(self, piece: bytes) -> tuple[_ReadyPattern, Values] | None:
        """Return the first pattern that a line has, and its groups; None where it has none."""
        line = piece.rstrip(b"\r\n")
        places = self._search.Match(line)
        if not places:
            return None
        kind = self._kinds[min(places)]
        return kind, _values(line, kind.match.search(line), kind.groups)

    def failures(self) -> Iterator[str]:
        """Yield why each of the profile's own lines is not what the profile says of it."""
        for number, check in enumerate(self.document.check, 1):
            try:
                why = self._failure(check)
            except NoEvent as error:
                why = str(error)
            if why:
                yield f"check {number}: {why}: {clean(check.line, 120)}"

    def _failure(self, check: CheckedLine) -> str:
        times = LocalTimes(Path(check.path), self.zone, Report())
        hit = self.kind_of(check.line.encode())
        name = hit[0].name if hit is not None else None
        if name != check.pattern:
            return f"it has pattern {name}, not {check.pattern}"
        made: list[WireEvent] = []
        if hit is not None:
            maker = Maker(self.document.time, times, None, spare_job="-")
            values = [*self.of_path(check.path), *hit[1]]
            made = maker.made(hit[0].becomes, values, 1)
        return fault_of(made, check.becomes)


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _groups(match: Any) -> list[tuple[str, int]]:
    return [(name.decode(), place) for name, place in match.groupindex.items()]


def _values(text: bytes, hit: Any, groups: list[int]) -> list[str | None]:
    """Return what the groups hold; the library's own dictionary takes longer than the search."""
    spans = [hit.span(place) for place in groups]
    return [
        None if begin < 0 else text[begin:end].decode("utf-8", "replace") for begin, end in spans
    ]


def _engine() -> tuple[Any, Any]:
    try:
        import re2  # noqa: PLC0415 -- an extra: only profiles need it
    except ImportError:
        raise NoEngine("profiles need google-re2: pip install 'ett-service[logs]'") from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    options.encoding = re2.Options.Encoding.LATIN1  # bytes are bytes, and none is invalid
    return re2, options


def read(
    paths: Sequence[Path],
    job: str | None = None,
    *,
    profile: Profile,
    zone: tzinfo | None = None,
) -> tuple[Iterator[ImportedRun], Report]:
    """Read logs and folders of them by *profile*; *zone* goes before that of the profile."""
    of_file = partial(_of_file, job=job, profile=profile, zone=zone or profile.zone)
    return runs_of(paths, profile.document.files or _FILES, of_file)


def _of_file(
    path: Path, report: Report, *, job: str | None, profile: Profile, zone: tzinfo | None
) -> Iterator[ImportedRun]:
    maker = Maker(profile.document.time, LocalTimes(path, zone, report), job)
    before = report.records
    yield from Runs(path, "log").of(_made(path, report, profile, maker))
    if report.records == before:
        report.miss(path, f"no line has a pattern of profile {profile.document.name}")
    else:
        report.files += 1


def _made(path: Path, report: Report, profile: Profile, maker: Maker) -> Iterator[MadeOfLine]:
    """Yield the events of each line that has a pattern; one that is wrong is skipped."""
    shared = profile.of_path(path.as_posix())
    for number, piece in profile.lines_of(path):
        hit = profile.kind_of(piece)
        if hit is None:
            continue
        report.records += 1
        kind, groups = hit
        try:
            yield number, maker.made(kind.becomes, [*shared, *groups], number)
        except NoEvent as error:
            report.skip(path, number, f"pattern {kind.name}: {error}")
