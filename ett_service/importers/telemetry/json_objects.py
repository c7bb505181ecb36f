"""The JSON objects of a file: one a line, or an array of them, printed for people or not."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from ett_service.importers.files import pieces_of
from ett_service.importers.importer import Report

T = TypeVar("T")

_LONGEST_BLOCK = 1 << 20
_BETWEEN = frozenset({b"", b"[", b"]", b","})


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
            yield line, decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            report.skip(path, line, _why(error))


def _why(error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    return "no whole JSON object"


def _texts(path: Path, report: Report) -> Iterator[tuple[int, bytes]]:
    """Yield the text of each object: a line, or several from a lone brace to its like."""
    block: list[bytes] = []
    began = indent = size = 0
    for number, piece in pieces_of(path):
        text = piece.strip()
        if block:
            block.append(piece)
            size += len(piece)
            if text[:1] == b"}" and _indent(piece) == indent:
                yield began, b"".join(block).strip().rstrip(b",")
                block = []
            elif size > _LONGEST_BLOCK:
                report.skip(path, began, "an object without an end")
                block = []
        elif text == b"{":
            block, began, indent, size = [piece], number, _indent(piece), len(piece)
        elif text not in _BETWEEN:
            yield number, text.rstrip(b",")
    if block:
        report.skip(path, began, "an object without an end")


def _indent(piece: bytes) -> int:
    return len(piece) - len(piece.lstrip())
