"""Orbax: ``CheckpointManager(..., logger=EttLogger(job="llm-7b"))``.

Orbax reports a save to its logger when the call has returned, and a restore when it is done, with
the instants of both. When an asynchronous save is durable it tells nobody, so that is measured
around the step that commits it.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from orbax.checkpoint import CheckpointManager
from orbax.checkpoint.logging import AbstractLogger

from ett_service.client.clock import MICRO
from ett_service.client.current import current
from ett_service.client.frameworks.adapter import Afterwards, Framework, measured
from ett_service.client.guard import guarded
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.checkpoint import Checkpoint

_framework = Framework("orbax")


class EttLogger(AbstractLogger):
    """Reports what a CheckpointManager does. *facts* are what ``ett.init`` takes."""

    def __init__(self, **facts: Any) -> None:
        _framework.begin(facts, _hooks)

    @guarded(otherwise=None)
    def log_entry(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Report the save or the restore that an entry is about."""
        recorder = current.found()
        if recorder is None or not isinstance(msg, Mapping):
            return
        if msg.get("event_type") == "save":
            _report_save(recorder, msg)
        elif msg.get("event_type") in ("restore", "emergency_restore"):
            _report_restore(recorder, msg)


def _report_save(recorder: Recorder, entry: Mapping[str, Any]) -> None:
    save = recorder.saving
    blocked = _interval(recorder, entry, "checkpoint_manager_blocking")
    if isinstance(save, Checkpoint):  # the user reports it; Orbax knows better when it is durable
        save.later()
    elif blocked is None or not _framework.blocked(*blocked):
        return
    if waited := _interval(recorder, entry, "wait_for_prev"):
        _framework.span("checkpoint_blocking", "wait_for_previous", *waited)


def _report_restore(recorder: Recorder, entry: Mapping[str, Any]) -> None:
    if took := _interval(recorder, entry, "checkpoint_manager"):
        _framework.span("launcher_init", "checkpoint_restore", *took)
    _framework.restored(entry["step"])


def _interval(recorder: Recorder, entry: Mapping[str, Any], name: str) -> tuple[int, int] | None:
    """Return what an entry has timed since the Unix epoch, in microseconds of our clock."""
    start, took = entry.get(f"{name}_start_time"), entry.get(f"{name}_duration_secs")
    if start is None or not took:
        return None
    begin_us = int(start * MICRO) - recorder.lines.base_us
    return begin_us, begin_us + int(took * MICRO)


def _commit(_manager: Any, step: int, *_: Any, **__: Any) -> AbstractContextManager[Any]:
    return Afterwards(done=_framework.checkpoint(step).durable)


_hooks = {
    "_finalize_checkpoint": measured(CheckpointManager, "_finalize_checkpoint", _commit),
}
