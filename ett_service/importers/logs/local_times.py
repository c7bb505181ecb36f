"""The local times of one log, and what the report says of them."""

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final

from ett_service.core.intervals import HOUR_US, SECOND_US, rfc3339
from ett_service.importers.importer import Report
from ett_service.importers.instants import Flaw, LocalClock, microseconds

_HOUR: Final = len("2021-05-23 08:")
_MOST_HOURS: Final = 10_000
_SECOND: Final = len("2021-05-23 08:41:04")
_FRACTIONS_US: Final = {
    "": 0,
    **{f"{mark}{ms:03d}": ms * 1_000 for mark in ",." for ms in range(1_000)},
}
"""By what follows the second."""
_PAST: Final = [f"{past // 60:02d}:{past % 60:02d}" for past in range(3600)]
_PAST_US: Final = {text: past * SECOND_US for past, text in enumerate(_PAST)}
"""By minutes and seconds as logs write them."""
_WHOLE: Final = {text: (f"{text}.000000Z", past_us) for text, past_us in _PAST_US.items()}
_LONG_US: Final = 1 << 62  #: longer than any instant is before or after 1970


class LocalTimes:
    """Places the times of one log; without a zone they are taken as UTC, with a note."""

    def __init__(self, path: Path, zone: tzinfo | None, report: Report) -> None:
        self._path = path
        self._zone = zone
        self._report = report
        self._clock = LocalClock(zone or UTC)
        self._flaws: set[Flaw] = set()
        self._is_naive = False
        self._noted_us = -_LONG_US
        self._hours: dict[str, int] = {}  #: by their text; those without a change of clocks
        self._written: dict[
            str, tuple[str, int]
        ] = {}  #: and in UTC, where an hour begins with theirs

    def written(self, text: str, line: int) -> str | None:
        """Return a time that :meth:`at_us` reads as events have it; None if it is none."""
        hour, past = self._written.get(text[:_HOUR]), _WHOLE.get(text[_HOUR:])
        if hour is not None and past is not None:
            placed_us = hour[1] + past[1]
            if placed_us > self._noted_us:
                self._noted_us = placed_us
                self._clock.note(placed_us)
            return hour[0] + past[0]
        at_us = self.at_us(text.strip(), line)
        return None if at_us is None else rfc3339(at_us)

    def at_us(self, text: str, line: int) -> int | None:
        """Read a time such as ``2021-05-23 08:41:04,123``; None if it is none."""
        hour_us, past_us = self._hours.get(text[:_HOUR]), _PAST_US.get(text[_HOUR:_SECOND])
        if hour_us is not None and past_us is not None:
            fraction_us = _FRACTIONS_US.get(text[_SECOND:])
            if fraction_us is not None:
                at_us = hour_us + past_us + fraction_us
                self._clock.note(at_us)
                return at_us
        try:
            at = datetime.fromisoformat(text.replace(",", "."))
        except ValueError:
            return None
        at_us = self.placed(at, text, line)
        if past_us is not None and at.tzinfo is None:
            self._keep_hour(text[:_HOUR], at)
        return at_us

    def _keep_hour(self, text: str, at: datetime) -> None:
        hour_us = self._clock.plain_hour_us(at)
        if hour_us is not None:
            if len(self._hours) >= _MOST_HOURS:
                self._hours.clear()
                self._written.clear()
            self._hours[text] = hour_us
            if hour_us % HOUR_US == 0:
                self._written[text] = rfc3339(hour_us)[:_HOUR], hour_us

    def placed(self, at: datetime, text: str, line: int) -> int:
        """Place a time that the log writes as *text*."""
        if at.tzinfo is not None:
            return microseconds(at)
        if self._zone is None and not self._is_naive:
            self._is_naive = True
            where = f"line {line}: {text} has no zone and is taken as UTC"
            self._report.note(self._path, f"{where}, as all such; --timezone NAME says another")
        instant = self._clock.instant(at)
        if instant.flaw is not None and instant.flaw not in self._flaws:
            self._flaws.add(instant.flaw)
            self._report.note(self._path, f"line {line}: {text} {instant.flaw.value}")
        return instant.at_us
