"""Half-open intervals ``(start, end)`` of microseconds, and instants as text."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

Interval = tuple[int, int]

LARGEST_STORED = 2**63 - 1
"""What weighted sums are cut off at: stores keep no more, and no real job reaches it."""

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
DAY_US = 24 * HOUR_US
WEEK_US = 7 * DAY_US

MONDAY_US = -62_135_596_800 * SECOND_US  #: 0001-01-01, a Monday, before every instant


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the disjoint cover of *intervals*, in order; empty ones vanish."""
    cover: list[Interval] = []
    for start, end in sorted(intervals):
        if cover and start <= cover[-1][1]:
            cover[-1] = (cover[-1][0], max(end, cover[-1][1]))
        elif start < end:
            cover.append((start, end))
    return cover


def outside(interval: Interval, holes: Iterable[Interval]) -> list[Interval]:
    """Return *interval* without *holes*."""
    start, end = interval
    left = []
    for opens, closes in sorted(holes):
        if start < min(opens, end):
            left.append((start, min(opens, end)))
        start = max(start, closes)
    if start < end:
        left.append((start, end))
    return left


def whole_days(interval: Interval) -> tuple[Interval | None, list[Interval]]:
    """Cut an interval into its whole days (UTC) if it has any, and what is left, in order."""
    start, end = interval
    first, last = start + -start % DAY_US, end - end % DAY_US
    days = (first, last) if first < last else None
    return days, outside(interval, [days] if days else [])


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_PLAIN_EPOCH = _EPOCH.replace(tzinfo=None)
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def rfc3339(us: int) -> str:
    """Write microseconds since the Unix epoch in UTC, always with six decimals.

    A clock that was far off can carry an instant out of the years 1 to 9999, which RFC 3339
    cannot say; such an instant is written as the nearest that it can.
    """
    hour, past_us = divmod(min(max(us, _FIRST_US), _LAST_US), HOUR_US)
    second, left_us = divmod(past_us, SECOND_US)
    return f"{_hour(hour)}{_PAST[second]}.{left_us:06d}Z"


@lru_cache(maxsize=4096)
def _hour(hour: int) -> str:
    """Write an hour since the Unix epoch as ``2026-03-01T08:``; the hours of a log are few."""
    return (_PLAIN_EPOCH + timedelta(hours=hour)).isoformat()[: len("2026-03-01T08:")]


_PAST = [f"{second // 60:02d}:{second % 60:02d}" for second in range(3600)]
