"""Lightning: ``Trainer(..., callbacks=[EttCallback(job="llm-7b")])``.

The entry point ``lightning.pytorch.callbacks_factory`` adds one to every Trainer where the
environment has ``ETT_URL`` or ``ETT_SPOOL``. Two of them in one Trainer report everything once.
"""

from contextlib import AbstractContextManager
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.plugins.io import AsyncCheckpointIO

from ett_service.client.frameworks.adapter import measured
from ett_service.client.frameworks.fabric import durable_in_background, framework, hooks
from ett_service.client.guard import guarded
from ett_service.client.reporting.layers import From


class EttCallback(Callback):
    """Reports what a Trainer does. *facts* are what ``ett.init`` takes."""

    def __init__(self, **facts: Any) -> None:
        self._facts = facts
        self._entered = False
        self._evaluation: From | None = None

    @guarded(otherwise=None)
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin to record."""
        framework.begin(self._facts, _hooks)

    @guarded(otherwise=None)
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Report which step training resumes after, and wait for the first batch.

        Lightning calls no begin of an epoch for one that is resumed in its middle.
        """
        self._entered = False
        if framework.await_first_batch() and trainer.global_step > 0:
            framework.restored(trainer.global_step)

    @guarded(otherwise=None)
    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Enter the loop with the first batch that trains."""
        if not self._entered:
            self._entered = True
            framework.enter_loop_with_batch()

    @guarded(otherwise=None)
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Report the step, by the Trainer's own number of optimizer steps."""
        framework.step(trainer.global_step)

    @guarded(otherwise=None)
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin an evaluation; the sanity check is one of the launch."""
        if self._evaluation is None:
            self._evaluation = framework.phase("evaluation").__enter__()

    @guarded(otherwise=None)
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """End it."""
        self._end_of_evaluation()

    on_test_start = on_predict_start = on_validation_start
    on_test_end = on_predict_end = on_validation_end

    @guarded(otherwise=None)
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Leave the loop. The process may go on, so the attempt is not over."""
        framework.leave_loop(in_order=True)

    @guarded(otherwise=None)
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Leave what is open: neither the end of training nor the teardown follows."""
        self._end_of_evaluation()
        framework.leave_loop(in_order=False)

    def _end_of_evaluation(self) -> None:
        evaluation, self._evaluation = self._evaluation, None
        if evaluation is not None:
            evaluation.__exit__(None, None, None)


def _save(
    trainer: Any, filepath: Any, weights_only: bool | None = None, *_: Any, **__: Any
) -> AbstractContextManager[Any]:
    """Measure all that a save blocks, the state that is gathered before it is written included."""
    save = framework.checkpoint(trainer.global_step)
    if weights_only:
        save.later()  # it blocks, but nothing resumes from it
    elif isinstance(trainer.strategy.checkpoint_io, AsyncCheckpointIO):
        durable_in_background(save, filepath)
    return save


_hooks = {"save_checkpoint": measured(Trainer, "save_checkpoint", _save), **hooks}
