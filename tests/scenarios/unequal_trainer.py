"""A trainer of two ranks that nothing of ours is in: one of them waits longer for its batches."""

import os
import time

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS = 300
SLOW_RANK, SLOW_SECONDS, FAST_SECONDS = 1, 0.02, 0.002


class Batches(Dataset[torch.Tensor]):
    """Batches that take a while to read."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, place: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.ones(16)


def main() -> None:
    """Train in step."""
    init_process_group("gloo")
    slow = int(os.environ["RANK"]) == SLOW_RANK
    model = DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Batches(SLOW_SECONDS if slow else FAST_SECONDS), batch_size=1):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    destroy_process_group()


if __name__ == "__main__":
    main()
