"""A Lightning Trainer that nobody told of us, which breaks after its sixth step."""

import sys
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader


class Breaking(L.Callback):
    """Raises what nothing catches."""

    def on_before_zero_grad(self, trainer: Any, *_: Any) -> None:
        """Break."""
        if trainer.global_step == 6:
            raise RuntimeError("broken on purpose")


saves = ModelCheckpoint(sys.argv[1], every_n_train_steps=4, save_last=True, save_top_k=0)
quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = L.Trainer(
    max_steps=8, accelerator="cpu", limit_val_batches=0, callbacks=[saves, Breaking()], **quiet
)
trainer.fit(BoringModel(), DataLoader(RandomDataset(32, 64), batch_size=4))
