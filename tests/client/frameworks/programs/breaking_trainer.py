"""The example of the Hugging Face Trainer, which breaks after its sixth step."""

import runpy
import sys
from typing import Any

from transformers import TrainerCallback, trainer


class Breaking(TrainerCallback):
    """Raises what nothing catches."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Break."""
        if state.global_step == 6:
            raise RuntimeError("broken on purpose")


trainer.DEFAULT_CALLBACKS.append(Breaking)
runpy.run_path(sys.argv.pop(1), run_name="__main__")
