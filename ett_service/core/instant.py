"""Instants as text."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def rfc3339(us: int) -> str:
    """Write microseconds since the Unix epoch in UTC, always with six decimals.

    A clock that was far off can carry an instant out of the years 1 to 9999, which RFC 3339
    cannot say; such an instant is written as the nearest that it can.
    """
    within = min(max(us, _FIRST_US), _LAST_US)
    at = _EPOCH + timedelta(microseconds=within)
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
