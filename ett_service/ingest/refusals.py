"""Refusals: codes and pointers, never the value that offended."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import msgspec

from ett_service.core.errors import EttError


class Code(StrEnum):
    """What is wrong with an event or a batch: the closed list, with a sentence each."""

    sentence: str

    def __new__(cls, word: str, sentence: str) -> Self:
        """Make the member *word*, which *sentence* explains."""
        code = str.__new__(cls, word)
        code._value_ = word
        code.sentence = sentence
        return code

    MALFORMED_JSON = "malformed_json", "The line is not JSON."
    WRONG_TYPE = "wrong_type", "The value has the wrong JSON type."
    UNKNOWN_TYPE = "unknown_type", "There is no such event type."
    UNKNOWN_PHASE = "unknown_phase", "There is no such phase."
    UNKNOWN_VALUE = "unknown_value", "The member does not allow this value."
    UNKNOWN_MEMBER = "unknown_member", "An event of this type has no such member."
    MISSING_MEMBER = "missing_member", "A required member is missing."
    OUT_OF_RANGE = "out_of_range", "The number is too large or too small."
    BAD_LENGTH = "bad_length", "The text or the collection is too long, or empty."
    BAD_TEXT = "bad_text", "The text contains control, invisible or invalid characters."
    BAD_ID = (
        "bad_id",
        "An id has 1 to 64 characters of A-Z, a-z, 0-9, dot, underscore, colon, dash.",
    )
    BAD_JOB = "bad_job", "A job has 1 to 200 printable characters in NFC, no slash, not . or .. ."
    BAD_TIMESTAMP = "bad_timestamp", "An instant is RFC 3339, up to microseconds."
    TIMESTAMP_WITHOUT_OFFSET = "timestamp_without_offset", "The instant names no offset from UTC."
    TIMESTAMP_OUT_OF_RANGE = (
        "timestamp_out_of_range",
        "The instant lies before 1970 or too far in the future, or does not exist.",
    )
    TOO_LARGE = "too_large", "The event has too many bytes."
    TOO_DEEP = "too_deep", "Objects and lists are nested too deeply."
    TOO_OLD = "too_old", "The job is closed and its record was pruned: it takes no more events."
    OTHER_CLUSTER = (
        "other_cluster",
        "The launch is recorded of another cluster: the jobs of each need names of their own.",
    )
    CONFLICT = "conflict", "An event with this id and other content is already stored, and stays."


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that was refused; ``index`` is the event's place in the batch."""

    code: Code
    pointer: str  #: RFC 6901, into the body
    index: int | None = None  #: None for what stands around the events
    id: str | None = None  #: as the sender gave it, if it can be an id


class Refused(EttError):
    """A request of which nothing is taken."""


class MalformedBody(Refused):
    """The body is not JSON."""


class BadEncoding(Refused):
    """The body cannot be inflated, or is not UTF-8."""


class BodyTooLarge(Refused):
    """The body has more than *limit* of *what*: ``bytes``, ``inflated bytes`` or ``events``."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"A request may have at most {limit} {what}.")
        self.what = what
        self.limit = limit


class UnsupportedMedia(Refused):
    """The body is of a type or an encoding that is not taken."""


class BadBatch(Refused):
    """A member of the batch beside its events is at fault."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code.sentence)
        self.refusal = refusal


class Fault(ValueError):
    """What is wrong with one value; who reads it says where it stands."""

    def __init__(self, code: Code, pointer: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.pointer = pointer


_PLACE = re.compile(r" - at `(?:key` in `)?\$([^`]*)`\Z")
_NAMED = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_BOUND = re.compile(r"Expected `(?:int|float)` [<>]|.*out of range")
_SIZE = re.compile(r"Expected `(?:str|object|array)` of length")
_PATTERN = re.compile(r"Expected `str` matching")

_INDEX = re.compile(r"\[(\d+)\]")

#: The members with a code of their own for whatever is wrong with their text.
_OF_MEMBER = {"/id": Code.BAD_ID, "/job": Code.BAD_JOB, "/preempted_by": Code.BAD_JOB}


def fault_of(error: msgspec.ValidationError) -> Fault:
    """Say what *error* is about; the offending value, which its text may hold, is left behind."""
    message = str(error)
    place = _PLACE.search(message)
    pointer = _pointer(place[1]) if place else ""
    message = message[: place.start()] if place else message
    if named := _NAMED.fullmatch(message):
        unknown = named[1].endswith("unknown")
        code = Code.UNKNOWN_MEMBER if unknown else Code.MISSING_MEMBER
        return Fault(code, f"{pointer}/{escape(named[2])}")
    if _BOUND.match(message):
        return Fault(Code.OUT_OF_RANGE, pointer)
    if _SIZE.match(message):
        return Fault(_OF_MEMBER.get(pointer, Code.BAD_LENGTH), pointer)
    if _PATTERN.match(message):
        return Fault(_OF_MEMBER.get(pointer, Code.UNKNOWN_VALUE), pointer)
    return Fault(_of_value(message, pointer), pointer)


def escape(name: str) -> str:
    """Write *name* as one step of an RFC 6901 pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _of_value(message: str, pointer: str) -> Code:
    if not message.startswith("Invalid"):
        return Code.WRONG_TYPE
    return {"/type": Code.UNKNOWN_TYPE, "/phase": Code.UNKNOWN_PHASE}.get(
        pointer, Code.UNKNOWN_VALUE
    )


def _pointer(path: str) -> str:
    """Turn ``.labels[...]`` into ``/labels``, as it is not said which key, ``.a[1].b`` into all."""
    readable, _, _ = path.partition("[...]")
    return _INDEX.sub(r"/\1", readable).replace(".", "/")
