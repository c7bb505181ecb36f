"""A trainer that knows nothing of ett, run by tests on real PyTorch: DDP or FSDP2, two ranks.

Its arguments are the way to wrap the model, a folder to write to, and the compiler's backend.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

dcp: Any = importlib.import_module("torch.distributed.checkpoint")  # it exports no types


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(512, 512, bias=False)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.linear(batch))


def wrapped(wrapping: str, backend: str) -> Any:
    model = torch.nn.Sequential(Block())
    model[0].compile(backend=backend)  # the wrapped model as a whole would make no graph
    if wrapping == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415 -- as users do
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 -- likewise

    sharded: Any = fully_shard
    return sharded(model, mesh=init_device_mesh("cpu", (2,)))


def restore(state: dict[str, Any], adam: Any, folder: Path) -> None:
    if (folder / "four").exists():
        dcp.load(state, checkpoint_id=folder / "four")
        adam.load_state_dict(torch.load(folder / "optimizer.pt", weights_only=False))


def main(wrapping: str, folder: Path, backend: str) -> None:
    dist.init_process_group("gloo")
    uploads: Any = dist.new_group(backend="gloo")
    model = wrapped(wrapping, backend)
    state = {"model": model.state_dict()}
    optimizers = [torch.optim.Adam(model.parameters()), torch.optim.SGD(model.parameters(), 0.1)]
    restore(state, optimizers[0], folder)
    samples: Any = [torch.ones(512) * n for n in range(12)]
    batches: DataLoader[torch.Tensor] = DataLoader(samples, batch_size=2, num_workers=1)
    for n, batch in enumerate(batches, start=1):
        model(batch).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
        if n == 2:
            dcp.save(state, checkpoint_id=folder / "two")
        if n == 4:
            upload = dcp.async_save(state, checkpoint_id=folder / "four", process_group=uploads)
            upload.result()
    if dist.get_rank() == 0:
        torch.save(optimizers[0].state_dict(), folder / "optimizer.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
