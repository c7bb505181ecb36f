"""What the modules of the frameworks share: what each reports, and methods that are measured.

No framework is imported here.
"""

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ett_service.client.current import current
from ett_service.client.guard import guarded
from ett_service.client.identity import is_disabled
from ett_service.client.reporting.checkpoint import Checkpoint, report_restored
from ett_service.client.reporting.layers import FRAMEWORK, From
from ett_service.client.reporting.loop import (
    await_first_batch,
    end_first_batch,
    enter_loop,
    leave_loop,
    step_from,
)
from ett_service.client.reporting.phase import phase, stage
from ett_service.client.session import init

Around = Callable[..., AbstractContextManager[Any]]

NOTHING: AbstractContextManager[Any] = nullcontext()
"""What a call happens in where there is nothing to measure."""


class Afterwards(AbstractContextManager["Afterwards"]):
    """Has something done when a call returns, or when it raises."""

    def __init__(
        self, *, done: Callable[[], None] | None = None, broke: Callable[[], None] | None = None
    ) -> None:
        self._done = done
        self._broke = broke

    def __exit__(self, kind: object, error: object, where: object) -> None:
        then = self._done if kind is None else self._broke
        if then is not None:
            guarded(otherwise=None)(then)()


class Framework:
    """What one framework reports: every event names it, and the script's own calls go before it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._begun: set[str] = set()  # producers that have named it

    @guarded(otherwise=None)
    def begin(self, facts: Mapping[str, Any], hooks: Mapping[str, str]) -> None:
        """Begin to record, if nobody has, and say what of the framework was found.

        *facts* are what ``ett.init`` takes; *hooks* says ``ok`` or ``missing`` of each method.
        """
        init(**facts)
        recorder = current.found()
        if recorder is None or recorder.lines.producer in self._begun:
            return
        self._begun.add(recorder.lines.producer)
        attributes = {"source": self.name, "hooks": dict(hooks)}
        recorder.write({"type": "heartbeat", "attributes": attributes})

    def phase(self, name: str) -> From:
        """Return a phase of this source."""
        return From(self.name, phase(name))

    def stage(self, name: str, of: str) -> From:
        """Return a stage of the phase *of*."""
        return From(self.name, stage(name, phase=of))

    def span(self, phase: str, stage: str | None, start: int, end: int) -> None:
        """Write a phase or stage that is over, in microseconds of the clock."""
        recorder = current.found()
        if recorder is not None:
            recorder.span(phase, stage, start, end, {"source": self.name})

    def blocked(self, start: int, end: int) -> bool:
        """Write a save that is over; False where the script reports checkpoints itself."""
        recorder = current.found()
        if recorder is None or recorder.saved_by > FRAMEWORK:
            return False
        self.span("checkpoint_blocking", None, start, end)
        return True

    def checkpoint(self, step: int | None) -> Checkpoint:
        """Return a checkpoint after *step*."""
        return Checkpoint(step, source=self.name)

    def restored(self, step: int) -> None:
        """Report that training goes on after *step*."""
        report_restored(step, source=self.name)

    def step(self, n: int, tokens: int | None = None) -> None:
        """Report that step *n* of the job is done, and the *tokens* of the job up to it."""
        step_from(self.name, n, tokens=tokens)

    def enter_loop(self) -> bool:
        """Enter the loop; False where the process is in it, or the script reports it."""
        return enter_loop(self.name)

    def leave_loop(self, *, in_order: bool) -> None:
        """Leave the loop, and end the wait for a first batch that never came."""
        end_first_batch(self.name)
        leave_loop(in_order=in_order, source=self.name)

    def await_first_batch(self) -> bool:
        """Begin the wait for the first batch; False if another callback or the script has."""
        return await_first_batch(self.name)

    def enter_loop_with_batch(self) -> None:
        """Enter the loop: the first batch is there and trains."""
        end_first_batch(self.name)
        self.enter_loop()


def is_wanted(env: Mapping[str, str]) -> bool:
    """Whether something is recorded, or the environment says where to: entry points take part."""
    if current.recorder is not None or current.revive is not None:
        return True
    return bool(env.get("ETT_URL") or env.get("ETT_SPOOL")) and not is_disabled(env)


def measured(owner: Any, name: str, around: Around) -> str:
    """Have each call of a method happen inside what *around* returns for its arguments.

    Returns ``ok``, or ``missing`` where this version of the framework has no such method. A method
    is measured once. *around* may raise; what it returns may not.
    """
    method = getattr(owner, name, None)
    if not callable(method):
        return "missing"
    if not hasattr(method, "measured_by_ett"):
        setattr(owner, name, _inside(method, guarded(otherwise=NOTHING)(around)))
    return "ok"


def _inside(method: Callable[..., Any], around: Around) -> Callable[..., Any]:
    @functools.wraps(method)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with around(*args, **kwargs):
            return method(*args, **kwargs)

    inside.measured_by_ett = True  # type: ignore[attr-defined]
    return inside
