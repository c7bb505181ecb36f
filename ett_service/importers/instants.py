"""Times of logs as microseconds since the Unix epoch: most are local and name no zone."""

from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ett_service.core.errors import EttError
from ett_service.core.intervals import SECOND_US

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class UnknownZone(EttError):
    """No zone has this name."""


class Flaw(StrEnum):
    """Why a local time does not name one instant; the value completes a sentence about it."""

    TWICE = "happens twice, as clocks are put back"
    NEVER = "does not exist, as clocks are put forward; it is read by the offset before"


class LocalInstant(NamedTuple):
    """Microseconds since the Unix epoch, and what is wrong with the time that names them."""

    at_us: int
    flaw: Flaw | None


def zone(name: str) -> tzinfo:
    """Return the zone of a name such as ``Europe/Paris``.

    Raises:
        UnknownZone: where there is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownZone(f"no time zone is named {name!r}") from None


def microseconds(at: datetime) -> int:
    """Return an instant with its zone in microseconds since the Unix epoch."""
    return (at - _EPOCH) // _MICROSECOND


def local_instant(local: datetime, of: tzinfo, not_before_us: int | None = None) -> LocalInstant:
    """Place a time without a zone, as clocks in zone *of* show it.

    Of a time that happens twice the first is meant, or the second where *not_before_us*, such as
    the instant of the record before it, leaves only that one.
    """
    first = microseconds(local.replace(tzinfo=of, fold=0))
    second = microseconds(local.replace(tzinfo=of, fold=1))
    if first == second:
        return LocalInstant(first, None)
    if second < first:
        return LocalInstant(first, Flaw.NEVER)
    is_second = not_before_us is not None and first < not_before_us <= second
    return LocalInstant(second if is_second else first, Flaw.TWICE)


class LocalClock:
    """Reads the times of one log from top to bottom, at the cost of one look-up for each hour.

    Records may be a little out of order: only one that lies half an hour or more before the
    latest is taken for the second pass of an hour that happens twice.
    """

    def __init__(self, of: tzinfo) -> None:
        self._of = of
        self._latest_us: int | None = None
        self._hour: datetime | None = None
        self._hour_us = 0

    def instant(self, local: datetime) -> LocalInstant:
        """Place a time without a zone."""
        hour = local.replace(minute=0, second=0, microsecond=0)
        if hour == self._hour:
            at_us = self._hour_us + (local - hour) // _MICROSECOND
            instant = LocalInstant(at_us, None)
        else:
            instant = self._looked_up(local, hour)
        self._latest_us = max(instant.at_us, self._latest_us or instant.at_us)
        return instant

    def _looked_up(self, local: datetime, hour: datetime) -> LocalInstant:
        near_us = None if self._latest_us is None else self._latest_us - 1800 * SECOND_US
        instant = local_instant(local, self._of, near_us)
        begin, end = (
            local_instant(edge, self._of) for edge in (hour, hour + timedelta(seconds=3_599))
        )
        if end.at_us - begin.at_us == 3_599 * SECOND_US and begin.flaw == end.flaw is None:
            self._hour, self._hour_us = hour, begin.at_us
        return instant
