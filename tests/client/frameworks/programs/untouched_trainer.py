"""A Trainer that nobody told of us but by its environment and ``report_to``."""

import sys

from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, trainer

from ett_service.client.frameworks import huggingface

if sys.argv[2] == "environment":
    huggingface.hook(trainer)
    report_to = "none"
else:
    report_to = "ett"
config = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
)
texts = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}] * 4
arguments = TrainingArguments(
    sys.argv[1], max_steps=2, save_strategy="steps", save_only_model=True, report_to=report_to
)
Trainer(LlamaForCausalLM(config), arguments, train_dataset=texts).train()
