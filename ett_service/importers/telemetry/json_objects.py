"""The JSON objects of a file: one a line, or an array of them, printed for people or not."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from ett_service.importers.files import pieces_of
from ett_service.importers.importer import Report

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
