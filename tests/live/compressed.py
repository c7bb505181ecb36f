"""The demo's fleet 60 times faster: its last minutes as they happen, what was before at once."""

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ett_service.core.intervals import SECOND_US, rfc3339
from ett_service.demo.calendar import WireEvent
from ett_service.demo.generator import Fleet
from ett_service.demo.life import Story
from tests.builders.clock import instant

FASTER = 60

_INSTANTS = ("at", "start", "submitted_at")
_SIGN_EVERY_US = 4 * SECOND_US
_SEND_EVERY_S = 0.25
_ENDINGS = frozenset({"attempt_ended", "job_ended", "job"})


@dataclass(frozen=True, slots=True)
class DueEvent:
    """An event, and the instant at which it is due, in microseconds since the Unix epoch."""

    due_us: int
    event: WireEvent


@dataclass(frozen=True, slots=True)
class Clock:
    """Maps the fleet's instants: *of_fleet_us* falls on *here_us*, and all goes *faster*."""

    of_fleet_us: int
    here_us: int
    faster: int = FASTER

    def here(self, at_us: int) -> int:
        """Return when an instant of the fleet comes."""
        return self.here_us + (at_us - self.of_fleet_us) // self.faster

    def moved(self, event: WireEvent) -> DueEvent:
        """Return the event with its instants mapped."""
        moved = dict(event)
        for name in _INSTANTS:
            if name in event:
                moved[name] = rfc3339(self.here(instant(event[name])))
        return DueEvent(self.here(instant(event["at"])), moved)


def tape(fleet: Fleet, clock: Clock, until_us: int) -> list[DueEvent]:
    """Return all events of the fleet, in order, with heartbeats of what runs from now on.

    A trainer sends heartbeats more often than the demo's does: without them, 60 times faster, it
    would be taken for lost between two of its saves.
    """
    events_due: list[DueEvent] = []
    for story in fleet.stories:
        events = sorted(map(clock.moved, story.events), key=lambda event: event.due_us)
        events_due += events
        events_due += _signs(story, events, clock.here_us, until_us)
    return sorted(events_due, key=lambda event: event.due_us)


def _signs(
    story: Story, events: Sequence[DueEvent], since_us: int, until_us: int
) -> Iterator[DueEvent]:
    instants = [event.due_us for event in events]
    for at in range(since_us, until_us, _SIGN_EVERY_US):
        before = bisect_right(instants, at)
        if not before:
            continue
        last = events[before - 1].event
        if last["type"] in _ENDINGS or last.get("phase") == "queued":
            continue
        named: WireEvent = {
            name: last[name] for name in ("launch", "attempt", "cycle") if name in last
        }
        sign: WireEvent = {"type": "heartbeat", "at": rfc3339(at), "job": story.job.name, **named}
        yield DueEvent(at, sign)


class Player:
    """Sends a tape in a thread of its own, each event when it is due."""

    def __init__(self, events: Sequence[DueEvent], send: Callable[[list[Any]], object]) -> None:
        self._events = events
        self._send = send
        self._failed: Exception | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._play)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End before the tape does, if it has not ended."""
        self._is_over.set()
        self._thread.join()

    def finish(self) -> None:
        """Wait for the end of the tape. Raises what sending it raised."""
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _play(self) -> None:
        try:
            at = 0
            while at < len(self._events) and not self._is_over.wait(_SEND_EVERY_S):
                now_us = time.time_ns() // 1000
                due = [event.event for event in self._events[at:] if event.due_us <= now_us]
                if due:
                    self._send(due)
                at += len(due)
        except Exception as failed:  # noqa: BLE001 -- raised where the tape is waited for
            self._failed = failed
