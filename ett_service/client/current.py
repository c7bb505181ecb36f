"""The one recorder of this process, if there is one."""

from threading import get_ident
from typing import TYPE_CHECKING

from ett_service.client.recorder import Cost, Recorder, Steps

if TYPE_CHECKING:
    from collections.abc import Callable


class Current:
    """What the public calls reach for. Without a recorder every one of them does nothing."""

    __slots__ = ("cost", "on_change", "recorder", "revive", "steps")

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.steps = Steps()
        self.cost = Cost()
        self.revive: Callable[[], None] | None = None  #: makes the recorder of a forked child
        self.on_change: Callable[[], None] | None = None  #: called when the recorder is another one

    def clear(self) -> None:
        """Record nothing from here on."""
        self._set(None, Steps(), None)

    def use(self, recorder: Recorder) -> None:
        """Record here from now on."""
        self._set(recorder, recorder.steps, None)

    def forked(self, revive: "Callable[[], None]") -> None:
        """Record nothing in this child until it asks for it itself."""
        self._set(None, Steps(due_ns=0), revive)

    def trains_here(self) -> bool:
        """Whether this thread is the one that trains: what any other does holds nothing up.

        It is the one that opened the loop or reported its first step; until then, the one that
        began the recording or called ``init``.
        """
        return get_ident() == self.cost.thread

    def found(self) -> Recorder | None:
        """Return the recorder; a forked child gets its own when it first asks."""
        if self.recorder is None and self.revive is not None:
            last = self.steps.last
            self.revive()
            self.steps.last = last
        return self.recorder

    def _set(
        self, recorder: Recorder | None, steps: Steps, revive: "Callable[[], None] | None"
    ) -> None:
        self.recorder, self.steps, self.revive = recorder, steps, revive
        self.cost = Cost() if recorder is None else recorder.cost
        if self.on_change is not None:
            self.on_change()


current = Current()
