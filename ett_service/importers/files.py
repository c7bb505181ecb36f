"""Files under paths, and their lines and JSON objects, of plain and of gzip files alike."""

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from io import BufferedIOBase, BufferedReader, StringIO
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from ett_service.core.errors import EttError
from ett_service.importers.importer import ImportedRun, Report, distinct

_LONGEST_LINE: Final = 1 << 20
_BLOCK: Final = 1 << 18
_GZIP: Final = b"\x1f\x8b"
_PASSED_ON: Final = ("/dev/fd/", "/dev/stdin", "/proc/")  #: pipes that a shell has opened


class Unreadable(EttError):
    """A file cannot be read to its end; the message says why."""


class Line(NamedTuple):
    """A line, or a piece of one that is too long."""

    number: int  #: counted from 1
    text: str
    is_whole: bool  #: whether it ends with a line feed; the last one of a file may still grow


def runs_of(
    paths: Sequence[Path],
    patterns: Sequence[str],
    of_file: Callable[[Path, Report], Iterator[ImportedRun]],
) -> tuple[Iterator[ImportedRun], Report]:
    """Return what *of_file* yields of each file, every run once, and the report of the rest.

    Files are those of ``files_under``; one that cannot be read to its end is named in the report.
    """
    report = Report()
    return distinct(_runs_of(paths, patterns, of_file, report)), report


def _runs_of(
    paths: Sequence[Path],
    patterns: Sequence[str],
    of_file: Callable[[Path, Report], Iterator[ImportedRun]],
    report: Report,
) -> Iterator[ImportedRun]:
    for path in files_under(paths, patterns, report):
        try:
            yield from of_file(path, report)
        except Unreadable as error:
            report.miss(path, str(error))


def files_under(paths: Sequence[Path], patterns: Sequence[str], report: Report) -> Iterator[Path]:
    """Yield files as they are, and those of folders whose names fit, folder by folder.

    Folders that cannot be read, or hold nothing that fits, are named in the report.
    """
    for path in paths:
        try:
            is_folder = path.is_dir()
        except OSError as error:
            report.miss(path, error.strerror or "cannot be read")
            continue
        if is_folder:
            yield from _of_folder(path, patterns, report)
        else:
            yield path


def _of_folder(folder: Path, patterns: Sequence[str], report: Report) -> Iterator[Path]:
    def name_unreadable(error: OSError) -> None:
        report.miss(Path(error.filename), error.strerror or "cannot be read")

    unread = len(report.unread)
    is_empty = True
    for place, folders, names in os.walk(folder, onerror=name_unreadable):
        folders.sort()
        for name in sorted(names):
            if not any(fnmatchcase(name, pattern) for pattern in patterns):
                continue
            is_empty = False
            path = Path(place, name)
            if path.is_file():
                yield path
            else:
                report.miss(path, "not a plain file")
    if is_empty and len(report.unread) == unread:
        report.miss(folder, f"no {patterns[0]} in it")


def lines_of(path: Path) -> Iterator[Line]:
    """Yield the lines of a file; what is no text may be one without end and comes in pieces.

    Raises:
        Unreadable: as :func:`pieces_of` does.
    """
    for number, block in blocks_of(path):
        *lines, last = block.decode("utf-8", "replace").split("\n")
        for place, line in enumerate(lines, number):
            yield Line(place, line + "\n", True)
        if last:
            yield Line(number + len(lines), last, is_whole=False)


def texts_of(path: Path) -> Iterator[str]:
    """Return the texts that :func:`lines_of` yields.

    Raises:
        Unreadable: as :func:`blocks_of` does.
    """
    return chain.from_iterable(
        StringIO(block.decode("utf-8", "replace"), newline="\n") for _, block in blocks_of(path)
    )


def pieces_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each line, from 1, and its bytes; a very long one comes in pieces.

    Raises:
        Unreadable: as :func:`blocks_of` does.
    """
    for first, block in blocks_of(path):
        yield from lines_in(first, block)


def blocks_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, and the number of the first line of each, from 1.

    What has no line feed for a megabyte is a block, and so is the end of a file without one.

    Raises:
        Unreadable: where the file cannot be opened, or its gzip data is truncated or damaged.
    """
    number = 1
    try:
        with opened(path) as raw:
            if raw.peek(2)[:2] == _GZIP:
                with gzip.GzipFile(fileobj=raw) as file:
                    for number, block in _blocks(file):
                        yield number, block
            else:
                yield from _blocks(raw)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise Unreadable(f"the gzip data is truncated or damaged after line {number}") from None
    except OSError as error:
        raise Unreadable(error.strerror or "cannot be read") from None


def opened(path: Path) -> BufferedReader:
    """Open a file; one whose other end nobody holds would be waited for without end.

    Raises:
        Unreadable: where it is none.
        OSError: where it cannot be opened.
    """
    mode = path.stat().st_mode
    if stat.S_ISFIFO(mode) and not str(path).startswith(_PASSED_ON):
        raise Unreadable("is a FIFO, not a file: import a file that holds its content")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISFIFO(mode)):
        raise Unreadable("is a device or a socket, not a file")
    return path.open("rb")


def _blocks(file: BufferedIOBase) -> Iterator[tuple[int, bytes]]:
    number, rest = 1, b""
    while read := file.read1(_BLOCK):
        block = rest + read
        end = block.rfind(b"\n") + 1
        if end:
            yield number, block[:end]
            number += block.count(b"\n", 0, end)
        rest = block[end:]
        if len(rest) >= _LONGEST_LINE:
            yield number, rest
            rest = b""
    if rest:
        yield number, rest


def lines_in(first: int, block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a block with their numbers, counted from *first*."""
    *lines, last = block.split(b"\n")
    for place, line in enumerate(lines):
        yield first + place, line + b"\n"
    if last:
        yield first + len(lines), last


T = TypeVar("T")

_LONGEST_BLOCK = 1 << 20
_BETWEEN = frozenset({b"", b"[", b"]"})


def json_objects(
    path: Path, report: Report, decode: Callable[[bytes], T]
) -> Iterator[tuple[int, T]]:
    """Yield what *decode* makes of each object, and the line on which that begins.

    What is no JSON, or nothing that *decode* takes, is skipped and counted in the report.

    Raises:
        Unreadable: where the file cannot be read to its end.
    """
    for line, text in _texts(path, report):
        try:
            record = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            report.skip(path, line, _why(error))
            continue
        yield line, record


def _why(error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    return "no whole JSON object"


def _texts(path: Path, report: Report) -> Iterator[tuple[int, bytes]]:
    """Yield the text of each object: a line, or several from a lone brace to its like."""
    pieces = pieces_of(path)
    for number, piece in pieces:
        if piece[:1] == b"{" and piece[-2:] == b"}\n":
            yield number, piece
            continue
        text = piece.strip().rstrip(b",")
        if text == b"{":
            block = _block(piece, pieces)
            if block is None:
                report.skip(path, number, "an object without an end")
            else:
                yield number, block
        elif text not in _BETWEEN:
            yield number, text


def _block(first: bytes, pieces: Iterator[tuple[int, bytes]]) -> bytes | None:
    """Read on to the brace that is indented like the *first*; None where there is none."""
    lines, size, indent = [first], len(first), _indent(first)
    for _, piece in pieces:
        lines.append(piece)
        size += len(piece)
        if piece.strip()[:1] == b"}" and _indent(piece) == indent:
            return b"".join(lines).strip().rstrip(b",")
        if size > _LONGEST_BLOCK:
            break
    return None


def _indent(piece: bytes) -> int:
    return len(piece) - len(piece.lstrip())
