"""Hugging Face Trainer: ``Trainer(..., callbacks=[EttCallback(job="llm-7b")])``.

Once this module is imported, ``TrainingArguments(report_to="ett")`` does the same. The Trainer has
no callback for the begin of a save or of an evaluation, nor for an exception: these are measured
around its own methods.
"""

import os
from contextlib import AbstractContextManager
from typing import Any

from transformers import Trainer, TrainerCallback
from transformers.integrations import integration_utils

from ett_service.client.checkpoint import checkpoint, restored
from ett_service.client.frameworks.adapter import begin, is_wanted, measured
from ett_service.client.guard import guarded
from ett_service.client.loop import enter_loop, leave_loop
from ett_service.client.phase import Phase, phase, stage
from ett_service.client.session import step


class EttCallback(TrainerCallback):
    """Reports what a Trainer does. *facts* are what ``ett.init`` takes."""

    def __init__(self, **facts: Any) -> None:
        self._facts = facts
        self._first_batch: Phase | None = None
        self._entered = False

    @guarded(otherwise=None)
    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to record."""
        begin("huggingface", self._facts, _hooks)

    @guarded(otherwise=None)
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report which step training resumes after."""
        self._entered = False
        self._end_of_first_batch()  # a train() that broke may have left it open
        begin("huggingface", self._facts, _hooks)
        if state.global_step > 0:
            restored(state.global_step)

    @guarded(otherwise=None)
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait for the first batch; after a resume, for those that are skipped, too."""
        if not self._entered and self._first_batch is None:
            self._first_batch = stage("get_first_batch_data", phase="launcher_init")
            self._first_batch.__enter__()

    @guarded(otherwise=None)
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Enter the loop with the first batch that trains."""
        if not self._entered:
            self._entered = True
            self._end_of_first_batch()
            enter_loop()

    @guarded(otherwise=None)
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the step by the Trainer's own number, which goes on after a resume."""
        counted = args.include_num_input_tokens_seen != "no"
        step(state.global_step, tokens=state.num_input_tokens_seen if counted else None)

    @guarded(otherwise=None)
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the loop. The process may go on, so the attempt is not over."""
        self._end_of_first_batch()
        leave_loop(in_order=True)

    def _end_of_first_batch(self) -> None:
        first, self._first_batch = self._first_batch, None
        if first is not None:
            first.__exit__(None, None, None)


def hook(module: Any) -> None:
    """Have every Trainer of ``transformers.trainer`` report, if the environment says where to."""
    if is_wanted(os.environ) and EttCallback not in module.DEFAULT_CALLBACKS:
        module.DEFAULT_CALLBACKS.append(EttCallback)


class _BreakableLoop(AbstractContextManager["_BreakableLoop"]):
    """The Trainer tells no callback of an exception."""

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        if kind is not None:
            leave_loop(in_order=False)


def _training(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    return _BreakableLoop()


def _save(trainer: Any, *_: Any, **__: Any) -> AbstractContextManager[Any]:
    save = checkpoint(trainer.state.global_step)
    if trainer.args.save_only_model:
        save.later()  # it blocks, but nothing resumes from it
    return save


def _restore(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    return stage("checkpoint_restore", phase="launcher_init")


def _evaluation(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    return phase("evaluation")


integration_utils.INTEGRATION_TO_CALLBACK["ett"] = EttCallback
_hooks = {
    name: measured(Trainer, name, around)
    for name, around in (
        ("train", _training),
        ("evaluate", _evaluation),
        ("predict", _evaluation),
        ("_save_checkpoint", _save),
        ("_load_from_checkpoint", _restore),
        ("_load_optimizer_and_scheduler", _restore),
    )
}
