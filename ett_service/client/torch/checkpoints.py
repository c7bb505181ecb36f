"""Distributed checkpoints: what saving and loading cost the thread that asked for them."""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ett_service.client.current import current
from ett_service.client.recorder import Recorder
from ett_service.client.reporting.checkpoint import Checkpoint
from ett_service.client.reporting.layers import AUTO, AUTOMATIC, From
from ett_service.client.reporting.phase import phase, stage
from ett_service.client.torch.launch import rebind
from ett_service.client.torch.states import body_of
from ett_service.client.torch.steps import commit

_HOLDERS = ("torch.distributed.checkpoint",)


def hook_save(module: Any) -> None:
    """Measure ``save`` and ``async_save``. Raises ``AttributeError`` where there are none."""
    for name, part, lasting in (("save", "save", False), ("async_save", "staging", True)):
        saving = _measuring(getattr(module, name), part, lasting=lasting)
        rebind(module, name, saving, _HOLDERS)


def hook_load(module: Any) -> None:
    """Measure ``load``. Raises ``AttributeError`` where there is none."""
    load = module.load

    @functools.wraps(load)
    def loading(*args: Any, **kwargs: Any) -> Any:
        recorder = current.recorder
        if recorder is None or not blocks():
            return load(*args, **kwargs)
        recorder.loaded = True
        with From(AUTO, stage("checkpoint_restore", phase="launcher_init")):
            return load(*args, **kwargs)

    rebind(module, "load", loading, _HOLDERS)


def _measuring(save: Callable[..., Any], part: str, *, lasting: bool) -> Callable[..., Any]:
    @functools.wraps(save)
    def saving(*args: Any, **kwargs: Any) -> Any:
        recorder = current.recorder
        if recorder is None or not blocks() or _is_reported_above(recorder):
            return save(*args, **kwargs)
        commit()
        with _checkpoint(recorder) as checkpoint:
            began = recorder.now()
            with From(AUTO, stage(part, phase="checkpoint_blocking")):
                answer = save(*args, **kwargs)
            if lasting and checkpoint is not None:
                checkpoint.durable_when(answer)
                _say_what_goes_on(checkpoint, answer, recorder, began)
            return answer

    return saving


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
def _say_what_goes_on(
    checkpoint: Checkpoint, answer: object, recorder: Recorder, began: int
) -> None:
    """Keep the blocking part of an asynchronous save apart from the staging in the background."""
    checkpoint.attributes["blocking_seconds"] = (recorder.now() - began) / 1e6
    staged = getattr(answer, "staging_completion", None)
    if staged is None:
        return

    def done(_: object) -> None:
        checkpoint.attributes["staging_seconds"] = (recorder.now() - began) / 1e6

    staged.add_done_callback(done)


def blocks() -> bool:
    """Whether this call holds up the trainer: an upload in another thread does not."""
    return threading.current_thread() is threading.main_thread()
