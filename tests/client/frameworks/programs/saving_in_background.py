"""A Lightning Trainer whose checkpoints are written by a thread, and Fabric beside it."""

import sys
import time
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.plugins.io import AsyncCheckpointIO, TorchCheckpointIO
from torch.utils.data import DataLoader

import ett_service as ett
from ett_service.client.frameworks.fabric import EttFabricCallback
from ett_service.client.frameworks.lightning import EttCallback


class SlowDisk(TorchCheckpointIO):
    """Takes its time to write."""

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Write, late."""
        time.sleep(0.5)
        super().save_checkpoint(*args, **kwargs)


folder = Path(sys.argv[1])
saves = ModelCheckpoint(folder, every_n_train_steps=2)
L.Trainer(
    max_steps=2,
    accelerator="cpu",
    limit_val_batches=0,
    logger=False,
    enable_progress_bar=False,
    plugins=[AsyncCheckpointIO(SlowDisk())],
    callbacks=[saves, EttCallback()],
).fit(BoringModel(), DataLoader(RandomDataset(32, 64), batch_size=4))

fabric = L.Fabric(accelerator="cpu", callbacks=[EttFabricCallback()])
with ett.train_loop():
    fabric.call("on_train_batch_end", global_step=3)
    fabric.call("on_validation_start")
    fabric.call("on_validation_end")
    fabric.save(folder / "fabric.ckpt", {"weight": torch.ones(2)})
