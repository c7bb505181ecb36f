from typing import Annotated

import pytest
from msgspec import Meta, Struct

from ett_service.ingest.members import Frame, read_members
from ett_service.ingest.refusals import Code, Fault
from ett_service.ingest.wire import Instant, Limits, Word
from tests.builders.clock import NOON

FRAME = Frame(Limits(), NOON)


class Sent(Struct, rename={"from_at": "from", "odd": "a/b~c"}):
    """A struct of the wire."""

    title: Word
    from_at: Instant | None = None
    odd: Annotated[str, Meta(extra={"reads": "text"})] | None = None
    plain: int | None = None


def test_each_member_is_read_as_its_type_says() -> None:
    sent = Sent("a title", "2026-03-01T13:00:00+01:00", plain=1)
    assert read_members(sent, FRAME) == {"title": "a title", "from_at": NOON, "plain": 1}


def test_what_is_null_is_left_out() -> None:
    assert read_members(Sent("a"), FRAME) == {"title": "a"}


@pytest.mark.parametrize(
    ("sent", "code", "pointer"),
    [
        (Sent("a\n"), Code.BAD_TEXT, "/title"),
        (Sent("a", "now"), Code.BAD_TIMESTAMP, "/from"),
        (Sent("a", odd="\x00"), Code.BAD_TEXT, "/a~1b~0c"),
    ],
)
def test_a_fault_points_at_the_member_by_its_name_on_the_wire(
    sent: Sent, code: Code, pointer: str
) -> None:
    with pytest.raises(Fault) as caught:
        read_members(sent, FRAME)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)
