"""Clock correction: where an event lies in time, once its producer's clock is understood."""

from collections.abc import Iterable, Mapping

from ett_service.core.events import Event

TOLERANCE_US = 2_000_000
"""Offsets up to this are left alone: they are the network's, not the clock's."""


class Clocks:
    """The producers' clocks of one job.

    Where a producer sends ``mono_us``, its instants are the ``at`` of its earliest event by that
    clock plus monotonic differences; on top of it goes the offset that the server measured.
    """

    def __init__(self) -> None:
        self._anchors: dict[str, tuple[int, int]] = {}  #: producer to (mono_us, at)
        self._offsets: dict[str, int] = {}
        self._stepped: set[str] = set()
        self._known: set[str] = set()

    def admit(self, events: Iterable[Event], offsets: Mapping[str, int]) -> bool:
        """Take in the clocks of *events*; False if an event placed before would move."""
        settled = set(self._known)
        moved = self._offset_moved(offsets, settled)
        for event in events:
            name = event.producer
            if name is None:
                continue
            self._known.add(name)
            if event.mono_us is None:
                continue
            reading = (event.mono_us, event.at)
            anchor = self._anchors.get(name)
            if anchor is None or reading < anchor:
                self._anchors[name] = reading
                moved = moved or (name in settled)
        return not moved

    def _offset_moved(self, offsets: Mapping[str, int], settled: set[str]) -> bool:
        corrections = {
            name: offset for name, offset in offsets.items() if abs(offset) > TOLERANCE_US
        }
        before, self._offsets = self._offsets, corrections
        return any(before.get(name) != corrections.get(name) for name in settled)

    def shift_us(self, event: Event) -> int:
        """Return what is to be added to the event's instants."""
        name = event.producer
        if name is None:
            return 0
        shift = self._offsets.get(name, 0)
        anchor = self._anchors.get(name)
        if anchor is not None and event.mono_us is not None:
            step = anchor[1] + event.mono_us - anchor[0] - event.at
            if abs(step) > TOLERANCE_US:
                self._stepped.add(name)
            shift += step
        return shift

    @property
    def flagged(self) -> tuple[str, ...]:
        """The producers whose clocks were off by more than ``TOLERANCE_US``, in order."""
        return tuple(sorted(self._stepped | (self._known & self._offsets.keys())))
