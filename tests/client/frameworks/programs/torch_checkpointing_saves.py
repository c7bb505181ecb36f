"""A trainer that knows nothing of ett but one line, and saves by Meta's torch_checkpointing."""

import logging
import sys
import time
from typing import Any

import torch
from torch_checkpointing.checkpoint_manager import CheckpointManager
from torch_checkpointing.config import AsyncCheckpointSaverConfig
from torch_checkpointing.logging_utils import checkpoint_logging_context
from torch_checkpointing.staging import CheckpointStagerConfig
from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

import ett_service as ett


def slow(_: Any) -> None:
    time.sleep(1)


def main(folder: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    ett.auto()
    model = torch.nn.Linear(600, 600)
    adam = torch.optim.Adam(model.parameters())
    plain = CheckpointStagerConfig(use_shared_memory=False, use_async_staging=False)
    disk = LocalFileSystemStorageConfig(use_direct_io=False)  # not every disk takes direct writes
    manager = CheckpointManager.Config(
        save=AsyncCheckpointSaverConfig(staging_config=plain),
        storage_config=disk,
        pre_finalize_callback=slow,
    ).build()
    uploads: list[Any] = []
    for n in range(1, 4):
        model(torch.ones(2, 600)).sum().backward()
        adam.step()
        checkpoint_logging_context.update(step=100 + n)
        if n < 3:
            uploads.append(manager.save(f"{folder}/{n}", {"model": model.state_dict()}))
    uploads[-1].result()
    manager.load(f"{folder}/2", into={"model": model.state_dict()})
    manager.close()
    sync_config = CheckpointManager.Config.with_sync_save()
    sync_config.storage_config = disk
    sync = sync_config.build()
    sync.save(f"{folder}/3", {"model": model.state_dict()})
    sync.close()


if __name__ == "__main__":
    main(sys.argv[1])
