"""Distributed checkpoints: what saving and loading cost the thread that asked for them."""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ett_service.client.checkpoint import Checkpoint
from ett_service.client.current import current
from ett_service.client.phase import phase, stage

_PACKAGE = "torch.distributed.checkpoint"


def hook_save(module: Any) -> None:
    """Measure ``save`` and ``async_save``. Raises ``AttributeError`` where there are none."""
    _rebind(module, "save", _measuring(module.save, "save", lasting=False))
    _rebind(module, "async_save", _measuring(module.async_save, "staging", lasting=True))


def hook_load(module: Any) -> None:
    """Measure ``load``. Raises ``AttributeError`` where there is none."""
    load = module.load

    @functools.wraps(load)
    def loading(*args: Any, **kwargs: Any) -> Any:
        if not _blocks():
            return load(*args, **kwargs)
        with stage("checkpoint_restore", phase="launcher_init"):
            return load(*args, **kwargs)

    _rebind(module, "load", loading)


def _measuring(save: Callable[..., Any], part: str, *, lasting: bool) -> Callable[..., Any]:
    @functools.wraps(save)
    def saving(*args: Any, **kwargs: Any) -> Any:
        if not _blocks():
            return save(*args, **kwargs)
        with _checkpoint() as checkpoint, stage(part, phase="checkpoint_blocking"):
            answer = save(*args, **kwargs)
            if lasting and checkpoint is not None:
                checkpoint.durable_when(answer)
            return answer

    return saving


@contextmanager
def _checkpoint() -> Iterator[Checkpoint | None]:
    """Find the checkpoint that the trainer reports, or report one after its latest step."""
    recorder = current.recorder
    open_one = recorder.saving if recorder is not None else None
    last = current.steps.last
    if isinstance(open_one, Checkpoint):
        yield open_one
    elif last is None:
        with phase("checkpoint_blocking"):
            yield None
    else:
        with Checkpoint(last[1]) as checkpoint:
            yield checkpoint


def _blocks() -> bool:
    """Whether this call holds up the trainer: an upload in another thread does not."""
    return current.recorder is not None and threading.current_thread() is threading.main_thread()


def _rebind(module: Any, name: str, function: Callable[..., Any]) -> None:
    """Put *function* where users find it, in the package too if that is imported already."""
    original = getattr(module, name)
    setattr(module, name, function)
    package = sys.modules.get(_PACKAGE)
    if getattr(package, name, None) is original:
        setattr(package, name, function)
