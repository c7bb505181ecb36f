"""Instants and lengths in microseconds, as the service counts them."""

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

#: 2026-03-01T12:00:00Z: the instant at which most jobs here begin.
NOON = 1_772_366_400 * SECOND
#: When the server got it: an hour after.
RECEIVED_AT = NOON + HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(text: str) -> int:
    """Microseconds since the Unix epoch of an RFC 3339 instant."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


class Clock:
    """A clock that tests set."""

    def __init__(self, now_us: int = NOON + MINUTE) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us
