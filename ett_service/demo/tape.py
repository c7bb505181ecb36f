"""What one attempt tells, as events on the wire, until it is cut off."""

from typing import Any

from ett_service.core.instant import rfc3339

WireEvent = dict[str, Any]


class Tape:
    """Records the events of one attempt; whatever would happen after *until_us* is not told.

    A span that is cut off leaves its begin behind, as a process does that dies in it. Members
    of *named* are those that place an event: ``launch``, ``attempt`` and ``cycle``.
    """

    def __init__(self, job: str, until_us: int, **named: object) -> None:
        self.events: list[WireEvent] = []
        self.until_us = until_us
        self._of_all = {"job": job, **{name: value for name, value in named.items() if value}}

    def tell(self, kind: str, at: int, **members: object) -> None:
        """Record one event, unless it would come too late."""
        if at <= self.until_us:
            said = {name: value for name, value in members.items() if value is not None}
            self.events.append({"type": kind, "at": rfc3339(at), **self._of_all, **said})

    def span(
        self, phase: str, start: int, end: int, stage: str | None = None, **members: object
    ) -> int:
        """Record a phase or a stage of it from *start* to *end*, and return its end."""
        if end <= self.until_us:
            self.tell("span", end, phase=phase, stage=stage, start=rfc3339(start), **members)
        elif start < self.until_us:
            self.tell("phase_started", start, phase=phase, stage=stage, **members)
        return end
