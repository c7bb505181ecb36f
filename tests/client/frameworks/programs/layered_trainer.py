"""A Trainer that hooks and our callback record, and whose script reports some things itself."""

import sys
from typing import Any

from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import ett_service as ett

ett.auto()


class Own(TrainerCallback):
    def on_step_end(self, args: object, state: Any, control: object, **kwargs: object) -> None:
        step = state.global_step
        ett.step(step)
        if step == 2:
            with ett.checkpoint(step):
                pass


config = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
)
texts = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}] * 4
arguments = TrainingArguments(sys.argv[1], max_steps=3, save_steps=1, report_to="none")
trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=texts, callbacks=[Own()])
with ett.train_loop():
    trainer.train()
