"""The local times of one log, and what the report says of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from operator import add, itemgetter
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
_WHOLE: Final = {text: f"{text}.000000Z" for text in _PAST}
_hour_of = itemgetter(slice(_HOUR))
_past_of = itemgetter(slice(_HOUR, None))


class LocalTimes:
    """Places the times of one log; without a zone they are taken as UTC, with a note."""

    def __init__(self, path: Path, zone: tzinfo | None, report: Report) -> None:
        self._path = path
        self._zone = zone
        self._report = report
        self._clock = LocalClock(zone or UTC)
        self._flaws: set[Flaw] = set()
        self._is_naive = False
        self._noted = ""  #: the latest that the clock does not know of
        self._hours: dict[str, int] = {}  #: by their text; those without a change of clocks
        self._written: dict[str, str] = {}  #: and in UTC, where an hour begins with theirs

    def written(self, text: str, line: int) -> str | None:
        """Return a time that :meth:`at_us` reads as events have it; None if it is none."""
        hour, past = self._written.get(text[:_HOUR]), _WHOLE.get(text[_HOUR:])
        if hour is not None and past is not None:
            at = hour + past
            self.note(at)
            return at
        at_us = self.at_us(text.strip(), line)
        return None if at_us is None else rfc3339(at_us)

    def written_alike(self, texts: Sequence[str]) -> list[str | None]:
        """Return, as :meth:`written` does, times in hours without a change of clocks.

        None stands for the others. None of the times is noted.
        """
        hours = list(map(self._written.get, map(_hour_of, texts)))
        if None in hours:
            if self._zone is None and not self._is_naive:
                return [None] * len(texts)
            for place, hour in enumerate(hours):
                if hour is None:
                    hours[place] = self._hour_written(texts[place])
        pasts = list(map(_WHOLE.get, map(_past_of, texts)))
        if None in hours or None in pasts:
            return [
                None if hour is None or past is None else hour + past
                for hour, past in zip(hours, pasts, strict=True)
            ]
        return list(map(add, hours, pasts))

    @property
    def may_happen_twice(self) -> bool:
        """Whether clocks of the zone are ever changed: else no time depends on those before it."""
        return self._clock.is_changed

    def note(self, at: str) -> None:
        """Take an instant as events have it for one of the log's, which some to come follow."""
        self._noted = max(self._noted, at)

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

    def _hour_written(self, text: str) -> str | None:
        """Return the hour of a time as events have it; None where it is not placed by its hour."""
        hour = self._written.get(text[:_HOUR])
        if hour is None and text[_HOUR:] in _WHOLE:
            try:
                at = datetime.fromisoformat(text)
            except ValueError:
                return None
            if at.tzinfo is None:
                self._keep_hour(text[:_HOUR], at)
            hour = self._written.get(text[:_HOUR])
        return hour

    def _keep_hour(self, text: str, at: datetime) -> None:
        hour_us = self._clock.plain_hour_us(at)
        if hour_us is not None:
            if len(self._hours) >= _MOST_HOURS:
                self._hours.clear()
                self._written.clear()
            self._hours[text] = hour_us
            if hour_us % HOUR_US == 0:
                self._written[text] = rfc3339(hour_us)[:_HOUR]

    def placed(self, at: datetime, text: str, line: int) -> int:
        """Place a time that the log writes as *text*."""
        if at.tzinfo is not None:
            return microseconds(at)
        if self._zone is None and not self._is_naive:
            self._is_naive = True
            where = f"line {line}: {text} has no zone and is taken as UTC"
            self._report.note(self._path, f"{where}, as all such; --timezone NAME says another")
        if self._noted:
            self._clock.note(microseconds(datetime.fromisoformat(self._noted)))
            self._noted = ""
        instant = self._clock.instant(at)
        if instant.flaw is not None and instant.flaw not in self._flaws:
            self._flaws.add(instant.flaw)
            self._report.note(self._path, f"line {line}: {text} {instant.flaw.value}")
        return instant.at_us
