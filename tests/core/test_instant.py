from ett_service.core.intervals import rfc3339


def test_an_instant_always_has_six_decimals_and_is_in_utc() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00.000000Z"
    assert rfc3339(1_772_366_400_000_001) == "2026-03-01T12:00:00.000001Z"
    assert rfc3339(-1) == "1969-12-31T23:59:59.999999Z"


def test_an_instant_out_of_range_is_written_as_the_nearest_in_it() -> None:
    assert rfc3339(-(1 << 62)) == "0001-01-01T00:00:00.000000Z"
    assert rfc3339(1 << 62) == "9999-12-31T23:59:59.999999Z"
