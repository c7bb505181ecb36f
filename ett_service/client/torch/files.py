"""Plain ``torch.save`` and ``torch.load``, where they are checkpoints: large, and on disk.

How large a file gets is known when it is written, so a save is reported when it is over; one that
a crash cut short is not seen.
"""

import functools
import os
from pathlib import Path
from typing import Any

from ett_service.client.current import current
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.checkpoint import Checkpoint
from ett_service.client.reporting.layers import AUTO, AUTOMATIC, From
from ett_service.client.reporting.phase import phase, stage
from ett_service.client.torch.launch import rebind
from ett_service.client.torch.states import body_of
from ett_service.client.torch.steps import commit

LARGE_BYTES = 1 << 20
"""A smaller file is taken for no checkpoint."""

_HOLDERS = ("torch",)


def hook(module: Any) -> None:
    """Measure ``save`` and ``load``. Raises ``AttributeError`` where there are none."""
    rebind(module, "save", _saving(module.save), _HOLDERS)
    rebind(module, "load", _loading(module.load), _HOLDERS)


def _saving(save: Any) -> Any:
    @functools.wraps(save)
    def saving(obj: object, f: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = current.recorder
        if recorder is None or not _is_outermost():
            return save(obj, f, *args, **kwargs)
        began = recorder.now()
        answer = save(obj, f, *args, **kwargs)
        _report(recorder, f, began, recorder.now())
        return answer

    return saving


def _loading(load: Any) -> Any:
    @functools.wraps(load)
    def loading(f: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = current.recorder
        if recorder is None or not _is_outermost() or (_size_of(f) or 0) < LARGE_BYTES:
            return load(f, *args, **kwargs)
        recorder.loaded = True
        if not recorder.launching:
            return load(f, *args, **kwargs)
        with From(AUTO, stage("checkpoint_restore", phase="launcher_init")):
            return load(f, *args, **kwargs)

    return loading


def _is_outermost() -> bool:
    """Whether no checkpoint is open that this file is a part of."""
    restoring = stage("checkpoint_restore", phase="launcher_init").is_open
    return current.trains_here() and not restoring and not phase("checkpoint_blocking").is_open


@body_of("torch_save", None)
def _report(recorder: Recorder, f: Any, began: int, ended: int) -> None:
    size = _size_of(f)
    commit()
    if size is None or size < LARGE_BYTES or recorder.saved_by > AUTOMATIC:
        return
    for part in (None, "save"):
        recorder.span("checkpoint_blocking", part, began, ended, {"source": AUTO})
    last = recorder.steps.last
    if last is not None and last[1] != recorder.saved_step:  # one of several files of a step
        recorder.saved_step = last[1]
        Checkpoint.saved(recorder, last[1], began, ended, size, {"source": AUTO})


@body_of("torch_save", None)
def _size_of(f: Any) -> int | None:
    """Return the bytes of a file by its path or its object; None for what is on no disk."""
    try:
        if isinstance(f, str | os.PathLike):
            return Path(f).stat().st_size
        return os.fstat(f.fileno()).st_size
    except (AttributeError, OSError, ValueError):
        return None
