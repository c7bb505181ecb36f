"""Instants and lengths in microseconds, as the service counts them."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

#: 2026-03-01T12:00:00Z: the instant at which most stories here begin.
NOON = 1_772_366_400 * SECOND
#: When the server got it: an hour after.
RECEIVED_AT = NOON + HOUR


class Clock:
    """Shows what it was set to."""

    def __init__(self, now_us: int = NOON + MINUTE) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us
