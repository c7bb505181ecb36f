"""Train a tiny model with Lightning; run it again, and it resumes.

ETT_URL=http://127.0.0.1:8080 ETT_API_KEY=... python examples/lightning_trainer.py FOLDER [STEPS]
"""

import sys

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from ett_service.client.frameworks.lightning import EttCallback

folder, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8
torch.manual_seed(0)
trainer = L.Trainer(
    max_steps=steps,
    accelerator="cpu",
    val_check_interval=4,
    limit_val_batches=2,
    logger=False,
    enable_progress_bar=False,
    callbacks=[ModelCheckpoint(folder, every_n_train_steps=4, save_last=True), EttCallback()],
)
trainer.fit(BoringModel(), DataLoader(RandomDataset(32, 24), batch_size=4), ckpt_path="last")
