import msgspec
import pytest

from ett_service.ingest.members import read_members
from ett_service.ingest.refusals import Code, Fault
from ett_service.ingest.requests import NewExclusion, NewWindow, frame, remark_schema
from tests.builders.clock import HOUR, NOON

DAY = 24 * HOUR


def test_a_window_is_named_from_and_to() -> None:
    sent = msgspec.json.decode(
        b'{"why": "a drill", "from": "2026-03-01T12:00:00Z"}', type=NewExclusion
    )
    assert read_members(sent, frame(NOON)) == {"why": "a drill", "from_at": NOON}


@pytest.mark.parametrize(("at", "is_taken"), [("2027-03-02T12:00:00Z", True),
                                              ("2027-03-02T12:00:00.000001Z", False)])  # fmt: skip
def test_an_instant_may_lie_a_year_ahead(at: str, *, is_taken: bool) -> None:
    sent = NewWindow(to_at=at)
    if is_taken:
        assert read_members(sent, frame(NOON)) == {"to_at": NOON + 366 * DAY}
    else:
        with pytest.raises(Fault) as caught:
            read_members(sent, frame(NOON))
        assert caught.value.code is Code.TIMESTAMP_OUT_OF_RANGE


def test_the_schemas_name_the_members_of_the_wire() -> None:
    schemas = remark_schema()
    assert schemas["NewExclusion"]["properties"].keys() == {"why", "from", "to", "windows"}
    assert schemas["NewMarker"]["required"] == ["at", "kind", "title"]
