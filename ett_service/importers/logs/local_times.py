"""The local times of one log, and what the report says of them."""

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final

from ett_service.core.intervals import SECOND_US
from ett_service.importers.importer import Report
from ett_service.importers.instants import Flaw, LocalClock, microseconds

_HOUR: Final = len("2021-05-23 08:")
_MOST_HOURS: Final = 10_000
_PAST_US: Final = {f"{s // 60:02d}:{s % 60:02d}": s * SECOND_US for s in range(3600)}
"""By minutes and seconds as logs write them."""


class LocalTimes:
    """Places the times of one log; without a zone they are taken as UTC, with a note."""

    def __init__(self, path: Path, zone: tzinfo | None, report: Report) -> None:
        self._path = path
        self._zone = zone
        self._report = report
        self._clock = LocalClock(zone or UTC)
        self._flaws: set[Flaw] = set()
        self._is_naive = False
        self._hours: dict[str, int] = {}  #: by their text; those without a change of clocks

    def at_us(self, text: str, line: int) -> int | None:
        """Read a time such as ``2021-05-23 08:41:04,123``; None if it is none."""
        hour_us, past_us = self._hours.get(text[:_HOUR]), _PAST_US.get(text[_HOUR:])
        if hour_us is not None and past_us is not None:
            self._clock.note(hour_us + past_us)
            return hour_us + past_us
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
            self._hours[text] = hour_us

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
