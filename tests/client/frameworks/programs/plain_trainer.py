"""A Trainer that knows nothing of ours: steps of a quarter of a second, begun anew or resumed."""

import sys
import time
from typing import Any

from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint

folder, steps, breaks_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


class Slow(TrainerCallback):
    """Makes the steps long enough for a status between them, and breaks at one of them."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        time.sleep(0.25)
        if state.global_step == breaks_at:
            raise RuntimeError("on purpose")


config = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
)
texts = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}] * 64
arguments = TrainingArguments(folder, max_steps=steps, save_strategy="steps", save_steps=10)
trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=texts, callbacks=[Slow()])
trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
