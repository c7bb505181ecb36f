"""Hugging Face Trainer: ``Trainer(..., callbacks=[EttTrainerCallback(job="llm-7b")])``.

Once this module is imported, ``TrainingArguments(report_to="ett")`` does the same. The Trainer has
no callback for the begin of a save or of an evaluation, nor for an exception: these are measured
around its own methods.
"""

import os
from contextlib import AbstractContextManager
from typing import Any

from transformers import Trainer, TrainerCallback
from transformers.integrations import integration_utils

from ett_service.client.frameworks.adapter import Afterwards, Framework, is_wanted, measured
from ett_service.client.guard import guarded

_framework = Framework("huggingface")


class EttTrainerCallback(TrainerCallback):
    """Reports what a Trainer does. *facts* are what ``ett.init`` takes."""

    def __init__(self, **facts: Any) -> None:
        self._facts = facts
        self._entered = False

    @guarded(otherwise=None)
    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to record."""
        _framework.begin(self._facts, _hooks)

    @guarded(otherwise=None)
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report which step training resumes after, and wait for the first batch.

        After a resume the Trainer skips what was trained on, which is a part of that wait.
        """
        self._entered = False
        _framework.begin(self._facts, _hooks)
        if _framework.await_first_batch() and state.global_step > 0:
            _framework.restored(state.global_step)

    @guarded(otherwise=None)
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Enter the loop with the first batch that trains."""
        if not self._entered:
            self._entered = True
            _framework.enter_loop_with_batch()

    @guarded(otherwise=None)
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the step by the Trainer's own number, which goes on after a resume."""
        counted = args.include_num_input_tokens_seen != "no"
        tokens = state.num_input_tokens_seen if counted else None
        _framework.step(state.global_step, tokens)

    @guarded(otherwise=None)
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the loop. The process may go on, so the attempt is not over."""
        _framework.leave_loop(in_order=True)


def hook(module: Any) -> None:
    """Have every Trainer of ``transformers.trainer`` report, where anything is to be recorded."""
    if is_wanted(os.environ) and EttTrainerCallback not in module.DEFAULT_CALLBACKS:
        module.DEFAULT_CALLBACKS.append(EttTrainerCallback)


def _leave_broken() -> None:
    _framework.leave_loop(in_order=False)


def _training(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    return Afterwards(broke=_leave_broken)  # the Trainer tells no callback of an exception


def _save(trainer: Any, *_: Any, **__: Any) -> AbstractContextManager[Any]:
    save = _framework.checkpoint(trainer.state.global_step)
    if trainer.args.save_only_model:
        save.later()  # it blocks, but nothing resumes from it
    return save


def _restore(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    return _framework.stage("checkpoint_restore", "launcher_init")


def _evaluation(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    return _framework.phase("evaluation")


integration_utils.INTEGRATION_TO_CALLBACK["ett"] = EttTrainerCallback
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
