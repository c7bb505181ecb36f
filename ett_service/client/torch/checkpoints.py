"""Checkpoints: what saving and loading cost the thread that asked for them.

Distributed ones, those of Meta's ``torch_checkpointing``, which tells a logger how long a save has
waited for the one before it and which step it saves, and plain ``torch.save`` and ``torch.load``
where they are checkpoints: large, and on disk. How large a file gets is known when it is written,
so such a save is reported when it is over; one that a crash cut short is not seen.
"""

import functools
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ett_service.client.clock import mono_us
from ett_service.client.current import current
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.checkpoint import Checkpoint
from ett_service.client.reporting.layers import AUTO, AUTOMATIC, From
from ett_service.client.reporting.phase import phase, stage
from ett_service.client.torch.launch import rebind
from ett_service.client.torch.states import body_of
from ett_service.client.torch.steps import commit

Call = Callable[..., Any]
Futures = Callable[[Any], tuple[Any, Any]]

_HOLDERS = ("torch.distributed.checkpoint",)

LOGGERS = ("torch_checkpointing.checkpoint_saver", "torch_checkpointing.checkpoint_writer")

_WAITED = "train.checkpoint_write.submit.wait_for_prev.latency_ms"
_PHASE = "checkpoint_blocking"

LARGE_BYTES = 1 << 20
"""A smaller file is taken for no checkpoint."""

_HOLDERS_OF_FILES = ("torch",)


def hook_save(module: Any) -> None:
    """Measure ``save`` and ``async_save``. Raises ``AttributeError`` where there are none."""
    rebind(module, "save", saving(module.save, "save"), _HOLDERS)
    rebind(module, "async_save", saving(module.async_save, "staging", _futures_of), _HOLDERS)


def hook_load(module: Any) -> None:
    """Measure ``load``. Raises ``AttributeError`` where there is none."""
    rebind(module, "load", loading(module.load), _HOLDERS)


def loading(load: Call) -> Call:
    """Return *load*, reported as the restoring of a checkpoint."""

    @functools.wraps(load)
    def measured(*args: Any, **kwargs: Any) -> Any:
        recorder = current.recorder
        if recorder is None or not current.trains_here():
            return load(*args, **kwargs)
        recorder.loaded = True
        with From(AUTO, stage("checkpoint_restore", phase="launcher_init")):
            return load(*args, **kwargs)

    return measured


def saving(save: Call, part: str, futures: Futures | None = None) -> Call:
    """Return *save*, reported as a checkpoint of which it is the stage *part*.

    *futures* takes from its answer those of the staging, or None, and of the upload; without, the
    checkpoint is durable when *save* returns.
    """

    @functools.wraps(save)
    def measured(*args: Any, **kwargs: Any) -> Any:
        recorder = current.recorder
        if recorder is None or not current.trains_here() or _is_reported_above(recorder):
            return save(*args, **kwargs)
        commit()
        with _checkpoint(recorder) as checkpoint:
            began = recorder.now()
            with From(AUTO, stage(part, phase="checkpoint_blocking")):
                answer = save(*args, **kwargs)
            if futures is not None:
                _go_on(checkpoint, futures, answer, began)
            return answer

    return measured


def _futures_of(answer: Any) -> tuple[Any, Any]:
    """Take the futures from what ``async_save`` answers: the upload, or an object with both."""
    staged = getattr(answer, "staging_completion", None)
    return staged, getattr(answer, "upload_completion", answer)


def _is_reported_above(recorder: Recorder) -> bool:
    """Whether the script or a framework reports checkpoints, and this is part of none."""
    is_inside = recorder.saving is not None or phase("checkpoint_blocking").is_open
    return recorder.saved_by > AUTOMATIC and not is_inside


@contextmanager
def _checkpoint(recorder: Recorder) -> Iterator[Checkpoint | None]:
    """Find the checkpoint that the trainer reports, or report one after its latest step."""
    open_one = recorder.saving
    last = current.steps.last
    if isinstance(open_one, Checkpoint):
        yield open_one
    elif last is None or recorder.saved_by > AUTOMATIC:
        with From(AUTO, phase("checkpoint_blocking")):
            yield None
    else:
        with Checkpoint(last[1], source=AUTO) as checkpoint:
            yield checkpoint


@body_of("checkpoint_save", None)
def _go_on(checkpoint: Checkpoint | None, futures: Futures, answer: object, began: int) -> None:
    """Follow a save in the background: when it is staged and durable, and who waits for it."""
    staged, upload = futures(answer)
    for future, name in ((staged, "wait_for_staging"), (upload, "wait_for_upload")):
        if future is not None:
            report_waits(future, name)
    if checkpoint is None:
        return
    checkpoint.attributes["blocking_seconds"] = (mono_us() - began) / 1e6
    if staged is not None:
        staged.add_done_callback(
            lambda _: checkpoint.attributes.update(staging_seconds=(mono_us() - began) / 1e6)
        )
    checkpoint.durable_when(upload)


def report_waits(future: Any, name: str) -> None:
    """Report as the stage *name* what the trainer waits in ``result`` and ``exception``."""
    for method in ("result", "exception"):
        setattr(future, method, _waiting(future, getattr(future, method), name))


def _waiting(future: Any, wait: Call, name: str) -> Call:
    @functools.wraps(wait)
    def waiting(*args: Any, **kwargs: Any) -> Any:
        recorder = current.recorder
        if (
            recorder is None
            or future.done()
            or not current.trains_here()
            or _is_reported_above(recorder)
        ):
            return wait(*args, **kwargs)
        commit()
        blocking = From(AUTO, phase("checkpoint_blocking"))
        with blocking, From(AUTO, stage(name, phase="checkpoint_blocking")):
            return wait(*args, **kwargs)

    return waiting


def hook_torch_checkpointing_save(module: Any) -> None:
    """Measure the savers of ``torch_checkpointing.checkpoint_saver``, and listen to what they log.

    Raises ``AttributeError`` where there are none.
    """
    sync, lasting = module.SyncCheckpointSaver, module.AsyncCheckpointSaver
    sync.save = saving(sync.save, "save")
    # It answers with the staging and the write.
    lasting.save = saving(lasting.save, "staging", lambda futures: futures)
    for logger in map(logging.getLogger, LOGGERS):
        logger.addFilter(_Records(logger))


def hook_torch_checkpointing_load(module: Any) -> None:
    """Measure ``torch_checkpointing.checkpoint_loader``. Raises ``AttributeError``, too."""
    module.CheckpointLoader.load = loading(module.CheckpointLoader.load)


class _Records(logging.Filter):
    """Takes what a logger's records say, and lets those pass that its user wants."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._logger = logger
        self._level = logger.level
        logger.setLevel(logging.INFO)

    def filter(self, record: logging.LogRecord) -> bool:
        take(record)
        return record.levelno >= self._wanted()

    def _wanted(self) -> int:
        above = self._logger.parent
        return self._level or (above.getEffectiveLevel() if above is not None else 0)


@body_of("checkpointing_save", None)
def take(record: logging.LogRecord) -> None:
    """Report the wait for the save before, and take the step that the trainer has named."""
    recorder = current.recorder
    if recorder is None or not current.trains_here() or not phase(_PHASE).is_open:
        return
    save, step = recorder.saving, getattr(record, "step", None)
    if isinstance(save, Checkpoint) and save.source == AUTO and isinstance(step, int):
        save.step = step
    waited_ms = getattr(record, "value", None)
    if getattr(record, "event_name", None) == _WAITED and waited_ms:
        ended = recorder.now()
        began = max(ended - int(waited_ms) * 1000, phase(_PHASE).began_at)
        recorder.span(_PHASE, "wait_for_previous", began, ended, {"source": AUTO})


def hook_files(module: Any) -> None:
    """Measure ``save`` and ``load``. Raises ``AttributeError`` where there are none."""
    rebind(module, "save", _saving(module.save), _HOLDERS_OF_FILES)
    rebind(module, "load", _loading(module.load), _HOLDERS_OF_FILES)


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
