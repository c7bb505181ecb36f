"""Pages of lists, and the opaque cursors that say where a page ended."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Query

from ett_service.api.answers import Words
from ett_service.api.problems import Problem, ProblemKind

T = TypeVar("T")
R = TypeVar("R")

Whole = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
Word = Annotated[str, msgspec.Meta(max_length=256, pattern=r"^[^\x00]*$")]
BY_TIME = tuple[Whole, Word]
"""The place in a list in order of time: an instant, then an id."""

Cursor = Annotated[
    str | None, Query(max_length=2000, description="`next_cursor` of the page before.")
]
Limit = Annotated[int, Query(ge=1, le=1000)]


def orders(names: Iterable[str]) -> Words:
    """Allow to sort by each of *names*, and by ``-NAME`` for the largest first."""
    ascending = tuple(names)
    return Words((*(f"-{name}" for name in ascending), *ascending))


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
    """Say that a cursor is not one of this list."""
    fault = {"code": "bad_cursor", "pointer": "/query/cursor"}
    return Problem(ProblemKind.VALIDATION_FAILED, errors=[fault])


def page(
    rows: Sequence[R], limit: int, place: Callable[[R], tuple[object, ...]]
) -> tuple[Sequence[R], str | None]:
    """Cut *rows*, of which one more than *limit* was asked for; return them and the next cursor."""
    shown = rows[:limit]
    return shown, write(place(shown[-1])) if len(rows) > limit else None
