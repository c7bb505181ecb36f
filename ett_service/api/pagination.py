"""Opaque cursors: where a page of a list ended."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any, TypeVar

import msgspec

from ett_service.api.problems import Kind, Problem

T = TypeVar("T")

Whole = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
Word = Annotated[str, msgspec.Meta(max_length=256, pattern=r"^[^\x00]*$")]


def write(place: tuple[object, ...]) -> str:
    """Write *place* as a cursor."""
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read(cursor: str, shape: type[T] | Any) -> T:
    """Read back a place of this *shape*.

    Raises:
        Problem: 422, if ``write`` made no such cursor.
    """
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        place: T = msgspec.json.decode(urlsafe_b64decode(padded.encode()), type=shape)
    except (ValueError, msgspec.MsgspecError) as error:
        raise refused() from error
    return place


def refused() -> Problem:
    """Tell that a cursor is not one of this list."""
    fault = {"code": "bad_cursor", "pointer": "/query/cursor"}
    return Problem(Kind.VALIDATION_FAILED, errors=[fault])
