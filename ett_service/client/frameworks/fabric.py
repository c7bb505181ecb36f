"""Lightning Fabric: ``Fabric(callbacks=[EttFabricCallback(job="llm-7b")])``.

The loop is the user's, so its begin is too: ``with ett.train_loop(): ...``. The global step comes
from the user as well: ``fabric.call("on_train_batch_end", global_step=...)``, or ``ett.step``.

Lightning writes and reads checkpoints in one way for its Trainer and for Fabric: ``CheckpointIO``.
"""

from contextlib import AbstractContextManager
from typing import Any

from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from ett_service.client.current import current
from ett_service.client.frameworks.adapter import NOTHING, Afterwards, Framework, measured
from ett_service.client.guard import guarded
from ett_service.client.reporting.checkpoint import Checkpoint
from ett_service.client.reporting.layers import From

framework = Framework("lightning")
"""Lightning, for its Trainer and for Fabric."""

_background: dict[str, Checkpoint] = {}


def durable_in_background(save: Checkpoint, path: Any) -> None:
    """Leave it to the thread that writes *path* to say that the checkpoint is durable."""
    save.later()
    _background[str(path)] = save


def _write(_io: Any, checkpoint: Any, path: Any, *_: Any, **__: Any) -> AbstractContextManager[Any]:
    del checkpoint  # named as Lightning names it, which passes it by name at times
    save = _background.pop(str(path), None)
    recorder, last = current.found(), current.steps.last
    if not current.trains_here():
        return Afterwards(done=save.durable) if save is not None else NOTHING
    if recorder is None or recorder.saving is not None or last is None:
        return NOTHING
    return framework.checkpoint(last[1])


def _read(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    return framework.stage("checkpoint_restore", "launcher_init")


hooks = {
    "checkpoint_io.save_checkpoint": measured(TorchCheckpointIO, "save_checkpoint", _write),
    "checkpoint_io.load_checkpoint": measured(TorchCheckpointIO, "load_checkpoint", _read),
}
"""The state of each of these hooks."""


class EttFabricCallback:
    """Reports what Fabric does by itself, and what the user calls by the Trainer's names.

    *facts* are what ``ett.init`` takes.
    """

    def __init__(self, **facts: Any) -> None:
        self._evaluation: From | None = None
        framework.begin(facts, hooks)

    @guarded(otherwise=None)
    def on_train_batch_end(self, global_step: int) -> None:
        """Report that this step of the job is done."""
        framework.step(global_step)

    @guarded(otherwise=None)
    def on_validation_start(self) -> None:
        """Begin an evaluation."""
        if self._evaluation is None:
            self._evaluation = framework.phase("evaluation").__enter__()

    @guarded(otherwise=None)
    def on_validation_end(self) -> None:
        """End it."""
        evaluation, self._evaluation = self._evaluation, None
        if evaluation is not None:
            evaluation.__exit__(None, None, None)
