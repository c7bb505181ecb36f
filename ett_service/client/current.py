"""The one recorder of this process, if there is one."""

from typing import TYPE_CHECKING

from ett_service.client.recorder import Recorder, Steps

if TYPE_CHECKING:
    from collections.abc import Callable


class Current:
    """What the public calls reach for. Without a recorder every one of them does nothing."""

    __slots__ = ("recorder", "revive", "steps")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Record nothing from here on."""
        self.recorder: Recorder | None = None
        self.steps = Steps()
        self.revive: Callable[[], None] | None = None  #: makes the recorder of a forked child

    def use(self, recorder: Recorder) -> None:
        """Record here from now on."""
        self.recorder = recorder
        self.steps = recorder.steps
        self.revive = None

    def forked(self, revive: "Callable[[], None]") -> None:
        """Record nothing in this child until it asks for it itself."""
        self.recorder = None
        self.steps = Steps(due_ns=0)
        self.revive = revive

    def found(self) -> Recorder | None:
        """Return the recorder; a forked child gets its own when it first asks."""
        if self.recorder is None and self.revive is not None:
            last = self.steps.last
            self.revive()
            self.steps.last = last
        return self.recorder


current = Current()
