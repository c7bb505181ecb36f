"""Seeded draws, events as they are sent, and the calendar of the fleet."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, TypeVar

from ett_service.core.intervals import rfc3339

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


T = TypeVar("T")


class Draws:
    """A stream of draws of its own for whatever *name* names."""

    def __init__(self, seed: int, name: str) -> None:
        self._random = random.Random(f"{seed}/{name}")  # text: the same in every process

    def about(self, median_us: float, spread: float) -> int:
        """Draw a log-normal duration, in microseconds; *spread* is that of its logarithm."""
        return max(1, round(median_us * math.exp(self._random.gauss(0.0, spread))))

    def wait(self, mean_us: float) -> int:
        """Draw an exponential duration, in microseconds."""
        return max(1, round(self._random.expovariate(1.0) * mean_us))

    def chance(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self._random.random() < probability

    def misses(self, probability: float) -> int:
        """Draw how often something of this probability does not happen before it does."""
        return int(math.log(1.0 - self._random.random()) / math.log(1.0 - probability))

    def share(self) -> float:
        """Draw a number from 0 to 1."""
        return self._random.random()

    def pick(self, things: Sequence[T], weights: Sequence[float] | None = None) -> T:
        """Draw one of *things*, each as likely as its weight says."""
        return self._random.choices(things, weights)[0]

    def count(self, mean: float) -> int:
        """Draw how many of many independent things happen, where *mean* do (Poisson)."""
        number, left = 0, self._random.expovariate(1.0)
        while left < mean:
            number += 1
            left += self._random.expovariate(1.0)
        return number


WireEvent = dict[str, Any]


class Tape:
    """Records the events of one attempt; events after *until_us* are left out.

    A span that is cut off leaves its begin behind, as a process does that dies in it. Members
    of *named* are those that place an event: ``launch``, ``attempt`` and ``cycle``.
    """

    def __init__(self, job: str, until_us: int, **named: object) -> None:
        self.events: list[WireEvent] = []
        self.until_us = until_us
        self._of_all = {"job": job, **{name: value for name, value in named.items() if value}}

    def record(self, kind: str, at: int, **members: object) -> None:
        """Record one event, unless it would come too late."""
        if at <= self.until_us:
            stated = {name: value for name, value in members.items() if value is not None}
            self.events.append({"type": kind, "at": rfc3339(at), **self._of_all, **stated})

    def span(
        self, phase: str, start: int, end: int, stage: str | None = None, **members: object
    ) -> int:
        """Record a phase or a stage of it from *start* to *end*, and return its end."""
        if end <= self.until_us:
            self.record("span", end, phase=phase, stage=stage, start=rfc3339(start), **members)
        elif start < self.until_us:
            self.record("phase_started", start, phase=phase, stage=stage, **members)
        return end


PLAN_DAYS = 60
"""The length of fleet that the days of :data:`PLANNED` are of; others are scaled to it."""

PLANNED: Mapping[str, float] = {
    "launch": 20.0,
    "idle_launch": 27.0,
    "outage": 33.0,
    "checkpoint": 38.0,
    "compile": 45.0,
    "mix": 52.0,
}
MAINTAINED: Mapping[str, tuple[float, ...]] = {
    "alder": (10.0, 40.0),
    "birch": (17.0, 47.0),
    "cedar": (24.0, 54.0),
}
MAINTENANCE = 4 * HOUR
OUTAGE = 12 * HOUR
RELEASE_EVERY = 7

_WEEKDAY_LOAD = (1.05, 1.10, 1.10, 1.05, 0.95, 0.40, 0.35)
_WEEKDAY_QUEUE = (1.3, 1.2, 1.1, 1.1, 1.4, 0.4, 0.3)
_MONTH_END_DAYS = 3
_FRIDAY = 4
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open stretch of time."""

    from_us: int
    to_us: int

    def __contains__(self, at: int) -> bool:
        return self.from_us <= at < self.to_us


class Almanac:
    """The calendar of a fleet from midnight *days* before the day of *end_us* to that instant."""

    def __init__(self, days: int, end_us: int) -> None:
        self.days = days
        self.end_us = end_us
        self.last_day = day_of(end_us)
        self.first_day = self.last_day - timedelta(days=days)
        self.start_us = midnight(self.first_day)
        self.releases = self._releases()
        self.maintenance = {name: self._maintained(at) for name, at in MAINTAINED.items()}
        begin = self.planned("outage") + 9 * HOUR
        self.outage = Window(begin, begin + round(OUTAGE * self._scale))

    @property
    def _scale(self) -> float:
        return min(1.0, self.days / PLAN_DAYS)

    def planned(self, what: str) -> int:
        """Return the midnight at which the day begins on which *what* is planned."""
        return midnight(self._day(PLANNED[what]))

    def load(self, day: date) -> float:
        """Return how many jobs start on *day*, beside a mean working day."""
        return _WEEKDAY_LOAD[day.weekday()] * (1.3 if is_month_end(day) else 1.0)

    def queueing(self, at: int) -> float:
        """Return how long jobs wait that are queued at an instant, beside a mean day."""
        day = day_of(at)
        return _WEEKDAY_QUEUE[day.weekday()] * (2.5 if is_month_end(day) else 1.0)

    def code_version(self, at: int) -> str:
        """Return the newest release at an instant."""
        return next(version for version, since in reversed(self.releases) if since <= at)

    def closed(self, cluster: str) -> list[Window]:
        """Return when nothing can begin on a cluster, in order of time."""
        windows = list(self.maintenance[cluster])
        if cluster == "cedar":
            windows.append(self.outage)
        return sorted(windows, key=lambda window: window.from_us)

    def _day(self, planned: float) -> date:
        """Return a planned day; a working day, for nobody releases at a weekend."""
        day = self.first_day + timedelta(days=round(planned * self.days / PLAN_DAYS))
        late = day.weekday() - _FRIDAY
        return day - timedelta(days=late) if late > 0 and self.days > RELEASE_EVERY else day

    def _releases(self) -> list[tuple[str, int]]:
        """Name weekly releases and their instants, so that one lies on the planned day."""
        day = self._day(PLANNED["compile"])
        while day >= self.first_day:
            day -= timedelta(days=RELEASE_EVERY)
        released = []
        while day <= self.last_day:
            year, week, _ = day.isocalendar()
            released.append((f"{year}.{week:02}", midnight(day) + 10 * HOUR))
            day += timedelta(days=RELEASE_EVERY)
        return released

    def _maintained(self, planned: tuple[float, ...]) -> tuple[Window, ...]:
        begins = [midnight(self._day(day)) + 6 * HOUR for day in planned]
        length = round(MAINTENANCE * self._scale) // MINUTE * MINUTE
        return tuple(Window(begin, begin + length) for begin in begins)


def midnight(day: date) -> int:
    """Return the instant at which *day* begins."""
    return (day - _EPOCH).days * DAY


def day_of(at: int) -> date:
    """Return the day in which an instant lies."""
    return _EPOCH + timedelta(days=at // DAY)


def is_month_end(day: date) -> bool:
    """Whether *day* is one of the last of its month."""
    return (day + timedelta(days=_MONTH_END_DAYS)).month != day.month
