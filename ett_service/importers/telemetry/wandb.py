"""Offline runs of Weights & Biases (``run-*.wandb``) to wire events.

A file is an attempt; runs of one name in one project are attempts of one job.

Records lie in blocks of 32 KiB, in pieces with a checksum, a length and a place in the record; of
each the few fields that are asked for are read by their numbers.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.importers.files import Unreadable, opened, runs_of
from ett_service.importers.importer import (
    Fact,
    ImportedRun,
    Report,
    identified,
    job_name,
    launch_name,
    word,
)
from ett_service.importers.telemetry.tracked import Point, TrackedRun, facts_of
from ett_service.importers.thinning import Thinner

_BLOCK: Final = 32 << 10
_HEAD: Final = 7  #: checksum, length and type of a piece; and the mark of a file
_MARK: Final = b":W&B"
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MOST_BYTES: Final = 16 << 20
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT: Final = 10
_NAMES: Final = b"\x0a\x12"  #: what a name of an item begins with
_FIELD: Final = b"\x82\x01"  #: and its value
_SHORTEST_ITEM: Final = 5
_MORE: Final = 0x80  #: a byte from which on another one of the same number follows

Fields = dict[int, list[int | bytes]]
"""Of a message: by number, its integers and what has a length."""

RUNS: Final = ("run-*.wandb",)
"""The files that are looked for in a folder."""

#: Numbers of fields: of a record what it is; of a run, of its end, and of an item of its history.
_HISTORY, _STATS, _RUN, _EXIT = 2, 7, 17, 18
_RUN_ID, _PROJECT, _NAME, _BEGIN = 1, 3, 8, 17
_EXIT_CODE, _RUNTIME = 1, 2
_ITEM, _KEY, _NESTED, _VALUE = 1, 1, 2, 16
_SAMPLED = 2
_SECONDS, _NANOSECONDS = 1, 2

_GLOBAL_STEPS: Final = ("global_step", "train/global_step", "trainer/global_step")
"""Keys under which trainers log the step; W&B's own counts what was logged."""
_READ: Final = frozenset((*_GLOBAL_STEPS, "_step", "_timestamp"))
_SHORT: Final = {name.encode(): name for name in _READ}

_JSON: Final = msgspec.json.Decoder()

_FIRST_S: Final = 946_684_800
_LAST_S: Final = 100_000_000_000
_MOST_STEP: Final = 2**53 - 1
_MOST_EXIT_CODE: Final = 255


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
    if size < begin or body[begin - 3 : begin - 1] != _FIELD:
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


@dataclass(slots=True)
class _RunLog:
    """What a file says so far."""

    run: Fields | None = None
    exit: Fields | None = None
    heard_us: int | None = None  #: the latest instant at which the machine was sampled
    own: Thinner[Point] = field(default_factory=Thinner)
    logged: Thinner[Point] = field(default_factory=Thinner)
    last_us: int = 0


def read(paths: Sequence[Path], job: str | None = None) -> tuple[Iterator[ImportedRun], Report]:
    """Read runs and folders of them; with *job*, all are attempts of that one."""
    return runs_of(paths, RUNS, partial(_of_file, job=job))


def _of_file(path: Path, report: Report, *, job: str | None) -> Iterator[ImportedRun]:
    log = _RunLog()
    for number, record in records(path):
        _take(log, record, number, path, report)
    begin_us = _instant(_message(log.run or {}, _BEGIN))
    if begin_us is None:
        report.miss(path, "no run with a start in it")
        return
    report.files += 1
    yield _imported(path, log, begin_us, job)


def _take(log: _RunLog, record: Fields | None, number: int, path: Path, report: Report) -> None:
    try:
        if record is None:
            raise Damaged("a record that is damaged or cut")
        if _RUN in record:
            log.run = log.run or _message(record, _RUN)
        elif _EXIT in record:
            log.exit = _message(record, _EXIT)
        elif _HISTORY in record:
            _take_history(log, _message(record, _HISTORY), number)
        elif _STATS in record:
            log.heard_us = _instant(_message(_message(record, _STATS), _SAMPLED)) or log.heard_us
    except ValueError as error:
        report.skip(path, number, f"record {number}: {error}")
        return
    report.records += 1


def _take_history(log: _RunLog, history: Fields, number: int) -> None:
    """Raises ``ValueError`` where it is not as it must be."""
    row = {}
    for item in history.get(_ITEM, ()):
        pair = short_pair(item) if isinstance(item, bytes) else None
        if pair is not None:
            if (name := _SHORT.get(pair[0])) is not None:
                row[name] = _value(pair[1])
            continue
        parts = fields(item) if isinstance(item, bytes) else {}
        key = _text(parts, _KEY) or "/".join(_texts(parts, _NESTED))
        if key in _READ:
            row[key] = _value(_text(parts, _VALUE).encode())
    seconds = row.get("_timestamp")
    if not isinstance(seconds, int | float) or not _FIRST_S <= seconds < _LAST_S:
        raise ValueError("history without a _timestamp in seconds")
    at_us = log.last_us = round(seconds * SECOND_US)
    step = next((row[key] for key in _GLOBAL_STEPS if key in row and _is_step(row[key])), None)
    if step is not None:
        log.own.add(at_us, partial(Point, at_us, int(step), number))
    if _is_step(row.get("_step")):
        log.logged.add(at_us, partial(Point, at_us, int(row["_step"]), number))


def _value(text: bytes) -> Any:
    """Raises ``ValueError`` for what is no JSON."""
    try:
        return _JSON.decode(text or b"null")
    except msgspec.DecodeError:  # as NaN is, which Python writes
        return json.loads(text.decode("utf-8", "replace"))


def _is_step(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= _MOST_STEP  # type: ignore[operator]


def _message(of: Fields, number: int) -> Fields:
    body = of.get(number, [b""])[-1]
    return fields(body) if isinstance(body, bytes) else {}


def _texts(of: Fields, number: int) -> list[str]:
    bodies = (body for body in of.get(number, ()) if isinstance(body, bytes))
    return [body.decode("utf-8", "replace") for body in bodies]


def _text(of: Fields, number: int) -> str:
    return "".join(_texts(of, number)[-1:])


def _number(of: Fields, number: int) -> int:
    value = of.get(number, [0])[-1]
    return value if isinstance(value, int) else 0


def _instant(timestamp: Fields) -> int | None:
    seconds = _number(timestamp, _SECONDS)
    if not _FIRST_S <= seconds < _LAST_S:
        return None
    return seconds * SECOND_US + min(_number(timestamp, _NANOSECONDS), 999_999_999) // 1000


def _imported(path: Path, log: _RunLog, begin_us: int, job: str | None) -> ImportedRun:
    run = log.run or {}
    run_id, project = word(_text(run, _RUN_ID), 60), word(_text(run, _PROJECT), 90)
    name = word(_text(run, _NAME), 100) or run_id
    own = job or job_name(f"{project}-{name}" if project else name, "wandb")
    launch = f"{run_id}-{launch_name(begin_us)}"
    labels = {"labels": {"project": project}} if project else {}
    about = {"name": name, "kind": "wandb", **labels} if name else {}
    points = log.own.points() or log.logged.points()
    tracked = TrackedRun(launch, begin_us, None, {}, points, about, 1)
    if log.exit is not None:
        runtime_us = min(_number(log.exit, _RUNTIME), _LAST_S) * SECOND_US
        tracked.end_us = max(begin_us + runtime_us, log.last_us)
        tracked.ending = _ending(_number(log.exit, _EXIT_CODE))
    facts = list(facts_of(tracked, own))
    if log.heard_us is not None:
        heard: dict[str, Any] = {"type": "heartbeat", "at": rfc3339(max(log.heard_us, begin_us))}
        facts.append(Fact({**heard, "job": own, "launch": launch}))
    return ImportedRun(path, own, identified("wandb", facts))


def _ending(exit_code: int) -> dict[str, Any]:
    if exit_code == 0:
        return {"outcome": "completed"}
    code = {"exit_code": exit_code} if exit_code <= _MOST_EXIT_CODE else {}
    return {"outcome": "failed", **code}
