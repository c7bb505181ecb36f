"""Distributed checkpoints: what saving and loading cost the thread that asked for them."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
