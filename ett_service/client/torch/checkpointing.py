"""Checkpoints by Meta's ``torch_checkpointing``: what its saves and loads block, and its records.

It tells a logger how long a save has waited for the one before it, and which step it saves.
"""

import logging
from typing import Any

from ett_service.client.current import current
from ett_service.client.reporting.checkpoint import Checkpoint
from ett_service.client.reporting.layers import AUTO
from ett_service.client.reporting.phase import phase
from ett_service.client.torch.checkpoints import loading, saving
from ett_service.client.torch.states import body_of

LOGGERS = ("torch_checkpointing.checkpoint_saver", "torch_checkpointing.checkpoint_writer")

_WAITED = "train.checkpoint_write.submit.wait_for_prev.latency_ms"
_PHASE = "checkpoint_blocking"


def hook_save(module: Any) -> None:
    """Measure the savers of ``torch_checkpointing.checkpoint_saver``, and listen to what they log.

    Raises ``AttributeError`` where there are none.
    """
    sync, lasting = module.SyncCheckpointSaver, module.AsyncCheckpointSaver
    sync.save = saving(sync.save, "save")
    # It answers with the staging and the write.
    lasting.save = saving(lasting.save, "staging", lambda futures: futures)
    for logger in map(logging.getLogger, LOGGERS):
        logger.addFilter(_Records(logger))


def hook_load(module: Any) -> None:
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
