"""torchtitan: a handler of its structured logger, which needs no change of a trainer.

    TITAN_STRUCT_LOGGER_HANDLERS=ett_service.client.frameworks.torchtitan.factory

torchtitan then uses these handlers alone; name its own beside, after a comma, to keep its files.
"""

import logging
from typing import Any

from ett_service.client.current import current
from ett_service.client.frameworks.adapter import Framework
from ett_service.client.guard import guarded
from ett_service.client.reporting.layers import From

_framework = Framework("torchtitan")

EVALUATIONS = frozenset({"eval", "validate"})
FIRST_BATCHES = frozenset({"fwd_bwd", "forward_backward"})
LAUNCH_STAGES = {
    "build_model": "train_module_creation",
    "checkpoint_load": "checkpoint_restore",
    "mesh_spawn": "mesh_spawn",
    "model_parallelism_init": "train_module_creation",
    "setup_async": "setup_async",
    "torch_distributed_init": "process_group_init",
    "torchstore_init": "torchstore_init",
    "vllm_init": "vllm_init",
}
"""The spans of a launch, and what the stages are called that they become."""

LOOP_STAGES = frozenset(
    {
        "generate",
        "get_training_sample",
        "pull_model_state_dict",
        "push_model_state_dict",
        "wait_for_training_batch",
    }
)
"""The spans of reinforcement learning that become stages of the loop. Other spans are left out."""


@guarded(otherwise=None)
def factory(*, structured_logger: logging.Logger, **_: Any) -> None:
    """Begin to record, and listen to the spans of torchtitan."""
    _framework.begin({}, {})
    if current.found() is not None:
        structured_logger.addHandler(Spans())


class Spans(logging.Handler):
    """Reports the spans of one process."""

    def __init__(self) -> None:
        super().__init__()
        self._broke = False  # something in this step raised
        self._trained = False
        self._saving_since = 0

    @guarded(otherwise=None)
    def emit(self, record: logging.LogRecord) -> None:
        """Report a begin or an end. Spans that end in an error say so before they end."""
        name, _, edge = getattr(record, "log_type_name", "").rpartition("_")
        if edge == "start":
            self._start(name, getattr(record, "step", None))
        elif edge == "error":
            self._broke = True
        elif edge == "end":
            self._end(name, getattr(record, "step", None))

    def _start(self, name: str, number: int | None) -> None:
        if name == "step":
            self._start_step(number)
        elif name == "fetching_batch":
            if not self._trained:
                _framework.await_first_batch()
        elif name in FIRST_BATCHES:
            self._train()
        elif name == "checkpoint_save":
            self._saving_since = self._now()
        elif (span := _phase_of(name)) is not None:
            span.__enter__()

    def _end(self, name: str, number: int | None) -> None:
        if name == "optim" and number is not None and not self._broke:
            _framework.step(number)
        elif name == "checkpoint_save":
            self._end_save()
        elif (span := _phase_of(name)) is not None:
            span.__exit__(None, None, None)

    def _start_step(self, number: int | None) -> None:
        self._broke = False
        if not self._trained and number is not None and number > 1:
            _framework.restored(number - 1)

    def _train(self) -> None:
        if not self._trained:
            self._trained = True
            _framework.enter_loop_with_batch()

    def _end_save(self) -> None:
        """Report the block; torchtitan enters this span in each step, and tags those that save."""
        from torchtitan.observability.structured_logger.step_state import (  # noqa: PLC0415 -- late
            get_step_tags,
        )

        recorder = current.found()
        if recorder is not None and self._saving_since and "checkpoint_save" in get_step_tags():
            _framework.blocked(self._saving_since, recorder.now())

    def _now(self) -> int:
        recorder = current.found()
        return recorder.now() if recorder is not None else 0


def _phase_of(name: str) -> From | None:
    """Return what a span is reported as, None where it is left out."""
    if name in EVALUATIONS:
        return _framework.phase("evaluation")
    if name in LAUNCH_STAGES:
        return _framework.stage(LAUNCH_STAGES[name], "launcher_init")
    return _framework.stage(name, "train_loop") if name in LOOP_STAGES else None
