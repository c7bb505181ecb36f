"""What the types of the wire cannot say: which text is refused, and which is mended.

A reader takes a member as it was sent and returns it as it is kept, or raises ``Fault``.
"""

import re
import signal
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ett_service.core.vocabulary import Outcome
from ett_service.ingest.instant import parse_instant
from ett_service.ingest.limits import Limits
from ett_service.ingest.refusal import Code, Fault
from ett_service.ingest.wire import MAX_INTEGER

#: Stands where a character was damaged, before or by us.
DAMAGED = "\N{REPLACEMENT CHARACTER}"

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Frame:
    """What a reader needs to know beside the value."""

    limits: Limits
    now_us: int


Reader = Callable[[Any, Frame], object]


def instant(text: str, frame: Frame) -> int:
    """Read an instant that events can have: from 1970 to a little into the future."""
    us = parse_instant(text)
    if not 0 <= us <= frame.now_us + frame.limits.max_future_us:
        raise Fault(Code.TIMESTAMP_OUT_OF_RANGE)
    return us


def text(value: str, _frame: Frame) -> str:
    """Read a name or the like: one line that can be shown."""
    if not value.isprintable() or DAMAGED in value:
        raise Fault(Code.BAD_TEXT)
    return value


def job(value: str, _frame: Frame) -> str:
    """Read a job's name, which is a part of addresses too."""
    if not value.isprintable() or "/" in value or value in (".", "..") or DAMAGED in value:
        raise Fault(Code.BAD_JOB)
    if not unicodedata.is_normalized("NFC", value):
        raise Fault(Code.BAD_JOB)
    return value


def identity(value: str, _frame: Frame) -> str:
    """Read an id; the pattern of its type lets a line feed at its end pass."""
    if not value.isprintable():
        raise Fault(Code.BAD_ID)
    return value


def log(value: str, _frame: Frame) -> str:
    """Read what may be a crash log: a failure is never refused for how its text looks."""
    return _CONTROLS.sub(DAMAGED, value)


def labels(value: Mapping[str, str], frame: Frame) -> dict[str, str]:
    """Read names and values that can be shown."""
    for each in (*value, *value.values()):
        text(each, frame)
    return dict(value)


def attributes(value: Mapping[str, Any], frame: Frame) -> object:
    """Read whatever JSON the sender keeps here, its text mended, its numbers exact."""
    return _kept(value, frame.limits.max_depth - 1)


def signal_number(value: int | str, _frame: Frame) -> int:
    """Read a signal by its number or its name."""
    if isinstance(value, int):
        return value
    try:
        return signal.Signals[value].value
    except KeyError:
        raise Fault(Code.UNKNOWN_VALUE) from None


def outcome(value: str, _frame: Frame) -> Outcome:
    """Read how something ended."""
    return Outcome(value)


READERS: dict[str, Reader] = {
    "instant": instant,
    "text": text,
    "job": job,
    "id": identity,
    "log": log,
    "labels": labels,
    "attributes": attributes,
    "signal": signal_number,
    "outcome": outcome,
}
"""By the word that the wire's types name them with."""


def _kept(value: Any, depth: int) -> object:
    if isinstance(value, str):
        return _CONTROLS.sub(DAMAGED, value)
    if isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise Fault(Code.OUT_OF_RANGE)
        return value
    if not isinstance(value, dict | list):
        return value
    return _kept_inside(value, depth)


def _kept_inside(value: dict[str, Any] | list[Any], depth: int) -> object:
    if depth == 0:
        raise Fault(Code.TOO_DEEP)
    if isinstance(value, list):
        return [_kept(each, depth - 1) for each in value]
    return {_CONTROLS.sub(DAMAGED, name): _kept(each, depth - 1) for name, each in value.items()}
