"""The JSON objects of a file: one a line, or an array of them, printed for people or not."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from ett_service.importers.files import pieces_of
from ett_service.importers.importer import Report

T = TypeVar("T")

_LONGEST_BLOCK = 1 << 20
_NO_END = "an object without an end"
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
            record = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            report.skip(path, line, _why(error))
            continue
        yield line, record


def _why(error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    return "no whole JSON object"


class _Block:
    """The lines of an object from a lone brace to its like, which is indented alike."""

    def __init__(self, began: int, first: bytes) -> None:
        self.began = began
        self._indent = _indent(first)
        self._lines = [first]
        self._size = len(first)

    def add(self, piece: bytes) -> bool:
        """Add a line; True where it is the last one."""
        self._lines.append(piece)
        self._size += len(piece)
        return piece.strip()[:1] == b"}" and _indent(piece) == self._indent

    @property
    def is_endless(self) -> bool:
        """Whether no object is as long as this."""
        return self._size > _LONGEST_BLOCK

    @property
    def text(self) -> bytes:
        """The object."""
        return b"".join(self._lines).strip().rstrip(b",")


def _texts(path: Path, report: Report) -> Iterator[tuple[int, bytes]]:
    """Yield the text of each object: a line, or several from a lone brace to its like."""
    block: _Block | None = None
    for number, piece in pieces_of(path):
        if block is not None:
            if block.add(piece):
                yield block.began, block.text
                block = None
            elif block.is_endless:
                report.skip(path, block.began, _NO_END)
                block = None
        elif piece[:1] == b"{" and piece[-2:] == b"}\n":
            yield number, piece
        elif (text := piece.strip()) == b"{":
            block = _Block(number, piece)
        elif text not in _BETWEEN:
            yield number, text.rstrip(b",")
    if block is not None:
        report.skip(path, block.began, _NO_END)


def _indent(piece: bytes) -> int:
    return len(piece) - len(piece.lstrip())
