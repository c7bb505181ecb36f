"""The log of an offline run of Weights & Biases (``run-*.wandb``): framing and protobuf.

Records lie in blocks of 32 KiB, in pieces with a checksum, a length and a place in the record; of
each the few fields that are asked for are read by their numbers.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from ett_service.importers.files import Unreadable, opened

_BLOCK: Final = 32 << 10
_HEAD: Final = 7  #: checksum, length and type of a piece; and the mark of a file
_MARK: Final = b":W&B"
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MOST_BYTES: Final = 16 << 20
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT: Final = 10
_NAMES: Final = b"\x0a\x12"  #: what a name of an item begins with
_VALUE: Final = b"\x82\x01"  #: and its value
_SHORTEST_ITEM: Final = 5
_MORE: Final = 0x80  #: a byte from which on another one of the same number follows

Fields = dict[int, list[int | bytes]]
"""Of a message: by number, its integers and what has a length."""


class Damaged(ValueError):
    """Bytes are not what they must be."""


def records(path: Path) -> Iterator[tuple[int, Fields | None]]:
    """Yield the number of each record, from 1, and its fields; None for one that is damaged.

    Raises:
        Unreadable: where the file is no such log.
    """
    try:
        with opened(path) as file:
            if not file.read(_HEAD).startswith(_MARK):
                raise Unreadable("no log of an offline run of W&B")
            for number, body in enumerate(_bodies(file), start=1):
                try:
                    yield number, None if body is None else fields(body)
                except Damaged:
                    yield number, None
    except OSError as error:
        raise Unreadable(error.strerror or "cannot be read") from None


class _Assembly:
    """A record that is being put together."""

    def __init__(self) -> None:
        self.pieces: list[bytes] | None = None
        self._size = 0

    def begin(self, body: bytes) -> None:
        """Begin with a first piece."""
        self.pieces, self._size = [body], len(body)

    def add(self, body: bytes) -> None:
        """Add a piece; those of a record that is too long are let go."""
        self._size += len(body)
        if self.pieces is not None and self._size <= _MOST_BYTES:
            self.pieces.append(body)

    def end(self) -> bytes | None:
        """Return the record; None where its begin is missing or it is too long."""
        pieces, self.pieces = self.pieces, None
        return b"".join(pieces) if pieces is not None and self._size <= _MOST_BYTES else None


def _bodies(file: BinaryIO) -> Iterator[bytes | None]:
    """Yield the records of a log; None for what is damaged or cut."""
    assembly = _Assembly()
    for kind, body in _pieces(file):
        if kind in (_FULL, _FIRST):
            if assembly.pieces is not None:
                yield None
            assembly.begin(body)
        elif kind is not None:
            assembly.add(body)
        if kind in (_FULL, _LAST):
            yield assembly.end()
        elif kind is None:
            assembly.end()
            yield None
    if assembly.pieces is not None:
        yield None


def _pieces(file: BinaryIO) -> Iterator[tuple[int | None, bytes]]:
    """Yield kind and content of each piece; where one is damaged, the rest of its block is lost."""
    left = _BLOCK - _HEAD
    while True:
        if left < _HEAD:
            file.read(left)
            left = _BLOCK
        head = file.read(_HEAD)
        if not head:
            return
        left -= _HEAD
        body = file.read(min(int.from_bytes(head[4:6], "little"), left))
        left -= len(body)
        if _is_sound(head, body):
            yield head[6], body
        else:
            yield None, b""
            file.read(left)
            left = _BLOCK


def _is_sound(head: bytes, body: bytes) -> bool:
    if len(head) < _HEAD or not _FULL <= head[6] <= _LAST:
        return False
    is_whole = len(body) == int.from_bytes(head[4:6], "little")
    return is_whole and zlib.crc32(head[6:] + body) == int.from_bytes(head[:4], "little")


def fields(body: bytes) -> Fields:
    """Read the fields of a message.

    Raises:
        Damaged: It is none.
    """
    read: Fields = {}
    place = 0
    size = len(body)
    while place < size:
        key = body[place]  # most numbers are of one byte
        key, place = (key, place + 1) if key < _MORE else _varint(body, place)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, place = _varint(body, place)
            read.setdefault(number, []).append(value)
            continue
        if kind == _BYTES:
            length = body[place] if place < size else _MORE
            length, place = (length, place + 1) if length < _MORE else _varint(body, place)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise Damaged("no kind of field")
        if place + length > size:
            raise Damaged("cut")
        if kind == _BYTES:
            read.setdefault(number, []).append(body[place : place + length])
        place += length
    return read


def short_pair(body: bytes) -> tuple[bytes, bytes] | None:
    """Read an item of a history that is one short name, its field 1 or 2, and a short value, 16.

    None where it is another one, which :func:`fields` reads.
    """
    size = len(body)
    if size < _SHORTEST_ITEM or body[0] not in _NAMES or body[1] >= _MORE:
        return None
    begin = body[1] + 5
    if size < begin or body[begin - 3 : begin - 1] != _VALUE:
        return None
    # A length of more than one byte is larger than what is left, less its second byte.
    return (body[2 : begin - 3], body[begin:]) if size - begin == body[begin - 1] < _MORE else None


def _varint(body: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(body[place : place + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < _MORE:
            return value, place + shift + 1
    raise Damaged("cut")
