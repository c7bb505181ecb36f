"""The local times of one log, and what the report says of them."""

from datetime import UTC, datetime, tzinfo
from pathlib import Path

from ett_service.importers.importer import Report
from ett_service.importers.instants import Flaw, LocalClock, microseconds


class LocalTimes:
    """Places the times of one log; without a zone they are taken as UTC, with a note."""

    def __init__(self, path: Path, zone: tzinfo | None, report: Report) -> None:
        self._path = path
        self._zone = zone
        self._report = report
        self._clock = LocalClock(zone or UTC)
        self._flaws: set[Flaw] = set()
        self._is_naive = False

    def at_us(self, text: str, line: int) -> int | None:
        """Read a time such as ``2021-05-23 08:41:04,123``; None if it is none."""
        try:
            at = datetime.fromisoformat(text.replace(",", "."))
        except ValueError:
            return None
        return self.placed(at, text, line)

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
