"""From what the decoder says about a value to a code and a pointer."""

import re

import msgspec

from ett_service.ingest.refusal import Code, Fault

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
    said = str(error)
    place = _PLACE.search(said)
    pointer = _pointer(place[1]) if place else ""
    said = said[: place.start()] if place else said
    if named := _NAMED.fullmatch(said):
        unknown = named[1].endswith("unknown")
        code = Code.UNKNOWN_MEMBER if unknown else Code.MISSING_MEMBER
        return Fault(code, f"{pointer}/{escape(named[2])}")
    if _BOUND.match(said):
        return Fault(Code.OUT_OF_RANGE, pointer)
    if _SIZE.match(said):
        return Fault(_OF_MEMBER.get(pointer, Code.BAD_LENGTH), pointer)
    if _PATTERN.match(said):
        return Fault(_OF_MEMBER.get(pointer, Code.UNKNOWN_VALUE), pointer)
    return Fault(_of_value(said, pointer), pointer)


def escape(name: str) -> str:
    """Write *name* as one step of an RFC 6901 pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _of_value(said: str, pointer: str) -> Code:
    if not said.startswith("Invalid"):
        return Code.WRONG_TYPE
    return {"/type": Code.UNKNOWN_TYPE, "/phase": Code.UNKNOWN_PHASE}.get(
        pointer, Code.UNKNOWN_VALUE
    )


def _pointer(path: str) -> str:
    """Turn ``.labels[...]`` into ``/labels``, as it is not said which key, ``.a[1].b`` into all."""
    known = path.partition("[...]")[0]
    return _INDEX.sub(r"/\1", known).replace(".", "/")
