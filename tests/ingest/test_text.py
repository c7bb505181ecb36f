"""RFC 3339 with an offset, up to microseconds; everything else is refused by its own code."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.ingest.members import parse_instant
from ett_service.ingest.refusals import Code, Fault
from tests.builders.clock import NOON

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:00:00Z",
        "2026-03-01t12:00:00z",
        "2026-03-01T12:00:00.000000+00:00",
        "2026-03-01T12:00:00-00:00",
        "2026-03-01T17:30:00+05:30",
        "2026-02-28T12:01:00.0-23:59",
    ],
)
def test_one_instant_may_be_written_in_many_ways(text: str) -> None:
    assert parse_instant(text) == NOON


@given(at=st.datetimes(timezones=OFFSETS))
def test_every_instant_is_read_to_the_microsecond(at: datetime) -> None:
    assert parse_instant(at.isoformat()) == (at - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("fraction", "us"), [(".1", 100_000), (".123456", 123_456), (".000001", 1), ("", 0)]
)
def test_fractions_are_read_to_the_microsecond(fraction: str, us: int) -> None:
    assert parse_instant(f"2026-03-01T12:00:00{fraction}Z") == NOON + us


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("2026-03-01T12:00:00", Code.TIMESTAMP_WITHOUT_OFFSET),
        ("2026-03-01T12:00:00.5", Code.TIMESTAMP_WITHOUT_OFFSET),
        ("2026-03-01T12:00:00.1234567Z", Code.BAD_TIMESTAMP),
        ("2026-03-01 12:00:00Z", Code.BAD_TIMESTAMP),
        ("2026-03-01T12:00Z", Code.BAD_TIMESTAMP),
        ("20260301T120000Z", Code.BAD_TIMESTAMP),
        ("2026-03-01", Code.BAD_TIMESTAMP),
        ("1772366400", Code.BAD_TIMESTAMP),
        ("2026-03-01T12:00:00+0530", Code.BAD_TIMESTAMP),
        ("2026-03-01T12:00:00+05:60", Code.BAD_TIMESTAMP),
        ("2026-03-01T12:00:00Z\n", Code.BAD_TIMESTAMP),
        ("٢٠٢٦-03-01T12:00:00Z", Code.BAD_TIMESTAMP),
        ("", Code.BAD_TIMESTAMP),
        ("2026-02-29T12:00:00Z", Code.TIMESTAMP_OUT_OF_RANGE),
        ("2026-03-01T24:00:00Z", Code.TIMESTAMP_OUT_OF_RANGE),
        ("2026-03-01T12:00:61Z", Code.TIMESTAMP_OUT_OF_RANGE),
        ("2026-03-01T12:00:00+24:00", Code.TIMESTAMP_OUT_OF_RANGE),
        ("0000-01-01T00:00:00Z", Code.TIMESTAMP_OUT_OF_RANGE),
    ],
)
def test_what_is_no_such_instant_is_refused(text: str, code: Code) -> None:
    with pytest.raises(Fault) as refused:
        parse_instant(text)

    assert refused.value.code is code


@pytest.mark.parametrize(
    ("leap", "after"),
    [
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("2016-12-31T23:59:60.25Z", "2017-01-01T00:00:00.25Z"),
        ("2017-01-01T05:29:60+05:30", "2017-01-01T00:00:00Z"),
    ],
)
def test_a_leap_second_is_the_second_after_it(leap: str, after: str) -> None:
    assert parse_instant(leap) == parse_instant(after)


@pytest.mark.parametrize("text", ["2016-12-31T12:00:60Z", "2016-12-31T23:59:60+01:00"])
def test_a_second_of_sixty_elsewhere_is_none(text: str) -> None:
    with pytest.raises(Fault) as refused:
        parse_instant(text)

    assert refused.value.code is Code.TIMESTAMP_OUT_OF_RANGE
