"""A Trainer without a callback of ours: recorded by ``ett.auto()``, or by ``report_to``.

Its arguments are a folder, which of the two, and an address that the environment does not have.
"""

import sys

import ett_service as ett

if sys.argv[2] == "auto":
    ett.auto(url=sys.argv[3] if sys.argv[3:] else None)
    report_to = "none"
else:
    report_to = "ett"

from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

config = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
)
texts = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}] * 4
arguments = TrainingArguments(
    sys.argv[1], max_steps=2, save_strategy="steps", save_only_model=True, report_to=report_to
)
Trainer(LlamaForCausalLM(config), arguments, train_dataset=texts).train()
