"""Lightning Fabric: ``Fabric(callbacks=[EttFabricCallback(job="llm-7b")])``.

The loop is the user's, so its begin is too: ``with ett.train_loop(): ...``. The global step comes
from the user as well: ``fabric.call("on_train_batch_end", global_step=...)``, or ``ett.step``.
"""

from typing import Any

from ett_service.client.frameworks.checkpoint_io import framework, hooks
from ett_service.client.guard import guarded
from ett_service.client.reporting.layers import From


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
