"""Reads the times that ``sacct`` prints: local ones without a zone, unless it is told otherwise."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.importers.instants import Flaw, LocalInstant, local_instant

_PLAIN: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
_ELAPSED: Final = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", re.ASCII)
_NEVER: Final = frozenset({"", "Unknown", "None", "N/A", "0"})
_MOST_KEPT: Final = 1 << 17
_HOUR: Final = len("2021-05-23T08:")
_PAST: Final = {f"{past // 60:02d}:{past % 60:02d}": past for past in range(3600)}
"""Seconds of an hour, by minutes and seconds."""
_PLAIN_HOUR_US: Final = (59 * 60 + 59) * SECOND_US


class Times(NamedTuple):
    """The instants of a record in whole seconds since 1970, each None where it is not known."""

    submit: int | None
    eligible: int | None
    start: int | None
    end: int | None


class Clock:
    """Places times of one zone; each hour is looked up once."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._known: dict[str, int | None] = dict.fromkeys(_NEVER)
        self._hours: dict[str, int] = {}  #: of which every second is shown once
        self._choices: dict[str, tuple[int, ...]] = {}
        self.unsure: str | None = None
        """The first time that clocks showed twice or never, and that nothing else decided."""

    def anew(self) -> "Clock":
        """Return another one of the zone."""
        return Clock(self._zone)

    def times(self, texts: Sequence[str], elapsed: int | None) -> Times:
        """Place submission, eligibility, start and end of a record.

        A time that clocks show twice is chosen such that none lies before the one before it, and
        that the last two lie *elapsed* seconds apart; of several such choices the earliest.

        Raises:
            ValueError: where a text is no time.
        """
        placed = Times(*map(self._placed, texts))
        if self._choices and any(text in self._choices for text in texts):
            return self._chosen(texts, placed, elapsed)
        return placed

    def _placed(self, text: str) -> int | None:
        hour, past = self._hours.get(text[:_HOUR]), _PAST.get(text[_HOUR:])
        if hour is not None and past is not None:
            return hour + past
        if text in self._known:
            return self._known[text]
        if len(self._known) > _MOST_KEPT:
            self._known = dict.fromkeys(_NEVER)
        at = self._known[text] = self._read(text)
        return at

    def _read(self, text: str) -> int:
        if text.isascii() and text.isdigit():
            return int(text)
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None and not _PLAIN.fullmatch(text):
            raise ValueError(text)
        if moment.tzinfo is not None:
            return int(moment.timestamp())
        return self._local(text, moment)

    def _local(self, text: str, moment: datetime) -> int:
        ends = [local_instant(moment.replace(minute=m, second=m), self._zone) for m in (0, 59)]
        if ends[0].flaw is ends[1].flaw is None and _span(*ends) == _PLAIN_HOUR_US:
            if len(self._hours) > _MOST_KEPT:
                self._hours.clear()
            self._hours[text[:_HOUR]] = ends[0].at_us // SECOND_US
        first = local_instant(moment, self._zone)
        if first.flaw is Flaw.TWICE:
            second = local_instant(moment, self._zone, first.at_us + 1)
            self._choices[text] = (first.at_us // SECOND_US, second.at_us // SECOND_US)
        elif first.flaw is Flaw.NEVER:
            self.unsure = self.unsure or text
        return first.at_us // SECOND_US

    def _chosen(self, texts: Sequence[str], placed: Times, elapsed: int | None) -> Times:
        options = (self._choices.get(text, (at,)) for text, at in zip(texts, placed, strict=True))
        ordered = [Times(*choice) for choice in product(*options) if _is_ordered(choice)]
        exact = [times for times in ordered if _fits(times, elapsed)]
        if len(exact or ordered) != 1:
            self.unsure = self.unsure or next(text for text in texts if text in self._choices)
        return next(iter(exact or ordered), placed)


def _span(begin: LocalInstant, end: LocalInstant) -> int:
    return end.at_us - begin.at_us


def _is_ordered(times: Sequence[int | None]) -> bool:
    known = [at for at in times if at is not None]
    return known == sorted(known)


def _fits(times: Times, elapsed: int | None) -> bool:
    return None not in (times.start, times.end, elapsed) and (
        (times.end or 0) - (times.start or 0) == elapsed
    )


def seconds_of(text: str) -> int | None:
    """Read ``[[D-]HH:]MM:SS``, or plain seconds; None where it is neither."""
    if text.isascii() and text.isdigit():
        return int(text)
    match = _ELAPSED.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def utc() -> Clock:
    """Return a clock for times in UTC."""
    return Clock(UTC)


@lru_cache(maxsize=4096)
def _hour(hour: int) -> str:
    return rfc3339(hour * 3600 * SECOND_US)[:14]


_REST: Final = [f"{rest // 60:02d}:{rest % 60:02d}Z" for rest in range(3600)]


def written(second: int) -> str:
    """Return an instant as events have it."""
    return _hour(second // 3600) + _REST[second % 3600]
