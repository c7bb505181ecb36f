"""Accelerate: ``Accelerator(log_with=EttTracker(job="llm-7b"))``, then ``init_trackers``.

A tracker is told of steps and of the end. What else there is to see is measured around the
Accelerator's own methods: the loop begins with the first backward pass, unless the user says where.
"""

from contextlib import AbstractContextManager
from typing import Any

from accelerate import Accelerator
from accelerate.tracking import GeneralTracker

from ett_service.client.current import current
from ett_service.client.frameworks.adapter import NOTHING, Framework, measured
from ett_service.client.guard import guarded

_framework = Framework("accelerate")


class EttTracker(GeneralTracker):
    """Reports what an Accelerator does. *facts* are what ``ett.init`` takes."""

    name = "ett"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, **facts: Any) -> None:
        super().__init__()
        self._facts = facts

    @property
    def tracker(self) -> None:
        """There is no other object behind this one."""
        return

    @guarded(otherwise=None)
    def start(self) -> None:
        """Begin to record."""
        _framework.begin(self._facts, _hooks)

    @guarded(otherwise=None)
    def log(self, values: Any, step: int | None = None, **kwargs: Any) -> None:
        """Report the step that the user logs."""
        if step is not None:
            _framework.step(step)

    @guarded(otherwise=None)
    def finish(self) -> None:
        """Leave the loop. The process may go on, so the attempt is not over."""
        recorder = current.found()
        if recorder is not None and recorder.lines.producer in _entered:
            _entered.discard(recorder.lines.producer)
            _framework.leave_loop(in_order=True)


_entered: set[str] = set()  # producers whose loop began here


def _backward(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    recorder = current.found()
    if recorder is not None and recorder.loop.entered_at is None and _framework.enter_loop():
        _entered.add(recorder.lines.producer)
    return NOTHING


def _save(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    recorder, last = current.found(), current.steps.last
    if recorder is None or recorder.saving is not None or last is None:
        return NOTHING
    return _framework.checkpoint(last[1])


def _restore(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    return _framework.stage("checkpoint_restore", "launcher_init")


_hooks = {
    name: measured(Accelerator, name, around)
    for name, around in (("backward", _backward), ("save_state", _save), ("load_state", _restore))
}
