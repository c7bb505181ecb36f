"""ISO weeks: from Monday, 00:00 UTC, seven days."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_WRITTEN = re.compile(r"(\d{4})-?W(\d{1,2})", re.ASCII)
_SEVEN_DAYS = timedelta(days=7)


@dataclass(frozen=True, slots=True, order=True)
class Week:
    """One ISO week, known by its Monday."""

    begin: datetime

    @classmethod
    def parse(cls, text: str) -> "Week":
        """Read ``2026-W47``.

        Raises ValueError where that is no ISO week.
        """
        written = _WRITTEN.fullmatch(text.strip())
        if written is None:
            raise ValueError(f"{text!r} is no ISO week, such as 2026-W47")
        year, number = map(int, written.groups())
        return cls(datetime.fromisocalendar(year, number, 1).replace(tzinfo=UTC))

    @classmethod
    def holding(cls, instant: datetime) -> "Week":
        """Return the week that *instant*, which has a zone, lies in."""
        year, number, _ = instant.astimezone(UTC).isocalendar()
        return cls.parse(f"{year:04}-W{number}")

    def before(self, weeks: int = 1) -> "Week":
        """Return the week so many weeks earlier."""
        return Week(self.begin - weeks * _SEVEN_DAYS)

    @property
    def end(self) -> datetime:
        """The first instant after it."""
        return self.begin + _SEVEN_DAYS

    @property
    def name(self) -> str:
        """``2026-W47``."""
        year, number, _ = self.begin.isocalendar()
        return f"{year:04}-W{number:02}"

    @property
    def days(self) -> str:
        """``16 to 22 November 2026``, as much of it as is not the same at both ends."""
        first, last = self.begin, self.end - timedelta(days=1)
        begin = f"{first.day}"
        if first.month != last.month:
            begin += f" {first:%B}"
        if first.year != last.year:
            begin += f" {first.year}"
        return f"{begin} to {last.day} {last:%B} {last.year}"

    @property
    def bounds(self) -> tuple[str, str]:
        """Begin and end as the API takes them."""
        return _written(self.begin), _written(self.end)


def _written(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
