"""Train a tiny Llama with the Hugging Face Trainer; run it again, and it resumes.

ETT_URL=http://127.0.0.1:8080 ETT_API_KEY=... python examples/huggingface_trainer.py FOLDER [STEPS]
"""

import sys

from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from ett_service.client.frameworks.huggingface import EttTrainerCallback

folder, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8
config = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
)
texts = [{"input_ids": list(range(n, n + 8)), "labels": list(range(n, n + 8))} for n in range(24)]
trainer = Trainer(
    LlamaForCausalLM(config),
    TrainingArguments(
        folder, max_steps=steps, per_device_train_batch_size=4, save_steps=4, eval_steps=4,
        eval_strategy="steps", report_to="none", include_num_input_tokens_seen=True,
    ),
    train_dataset=texts,
    eval_dataset=texts,
    callbacks=[EttTrainerCallback(job="tiny-llama")],
)  # fmt: skip
trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
