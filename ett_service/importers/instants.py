"""Times of logs as microseconds since the Unix epoch: most are local and name no zone."""

import os
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ett_service.core.errors import EttError
from ett_service.core.intervals import SECOND_US

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_HOURS: Final = 10_000


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
    since = at - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND_US + since.microseconds


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
    """Reads the times of one log from top to bottom, and looks each hour up once.

    Records may be a little out of order: only one that lies half an hour or more before the
    latest is taken for the second pass of an hour that happens twice.
    """

    def __init__(self, of: tzinfo) -> None:
        self._of = of
        self.is_changed = of.utcoffset(None) is None
        """Whether it ever is put back or forward; else no time depends on those before it."""
        self._latest_us: int | None = None
        self._hours: dict[datetime, int] = {}  #: those without a change of clocks

    def instant(self, local: datetime) -> LocalInstant:
        """Place a time without a zone."""
        hour_us = self.plain_hour_us(local)
        if hour_us is None:
            near_us = None if self._latest_us is None else self._latest_us - 1800 * SECOND_US
            instant = local_instant(local, self._of, near_us)
        else:
            past_us = (local.minute * 60 + local.second) * SECOND_US + local.microsecond
            instant = LocalInstant(hour_us + past_us, None)
        self.note(instant.at_us)
        return instant

    def plain_hour_us(self, local: datetime) -> int | None:
        """Return when the hour of a time began; None where clocks are changed in it."""
        hour = local.replace(minute=0, second=0, microsecond=0)
        hour_us = self._hours.get(hour)
        return self._looked_up(hour) if hour_us is None else hour_us

    def note(self, at_us: int) -> None:
        """Take an instant that was placed otherwise for one of the log's."""
        if self._latest_us is None or at_us > self._latest_us:
            self._latest_us = at_us

    def _looked_up(self, hour: datetime) -> int | None:
        begin, end = (
            local_instant(edge, self._of) for edge in (hour, hour + timedelta(seconds=3_599))
        )
        is_plain = begin.flaw is None and end.flaw is None
        if not is_plain or end.at_us - begin.at_us != 3_599 * SECOND_US:
            return None
        if len(self._hours) >= _MOST_HOURS:
            self._hours.clear()
        self._hours[hour] = begin.at_us
        return begin.at_us


def machine_zone() -> tzinfo:
    """Return the zone of this machine, with its changes of clocks: that of ``TZ``, if it is set."""
    named = os.environ.get("TZ", "").removeprefix(":")
    try:
        if named:
            return zone(named)
        with Path("/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    except (UnknownZone, ValueError, OSError):
        return datetime.now().astimezone().tzinfo or UTC
