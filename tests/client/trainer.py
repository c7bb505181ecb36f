"""A trainer of a few seconds on real PyTorch, run by tests: compile, checkpoints, process group.

Its arguments are the backend of ``torch.compile`` and a folder to write to.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import ett_service as ett


def main(backend: str, folder: Path) -> None:
    ett.init()
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")  # hooks find late imports

    uploads = dist.new_group(backend="gloo")
    # Products of matrices need no code of their own, so no test waits for a C++ compiler.
    model = torch.nn.Linear(4, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, backend=backend)
    samples: Any = [torch.ones(4) * n for n in range(8)]
    batches: DataLoader[torch.Tensor] = DataLoader(samples, batch_size=2)
    with ett.train_loop():
        for n, batch in enumerate(ett.data(batches), start=1):
            compiled(batch).sum().backward()
            optimizer.step()
            ett.step(n, samples=2 * n)
            if n == 2:
                dcp.save({"model": model.state_dict()}, checkpoint_id=folder / "two")
    with ett.checkpoint(4):
        state = {"model": model.state_dict()}
        saved = dcp.async_save(state, checkpoint_id=folder / "four", process_group=uploads)
    saved.result()
    dcp.load({"model": model.state_dict()}, checkpoint_id=folder / "four")
    torch._dynamo.reset()  # noqa: SLF001 -- what users call to compile afresh
    compiled(torch.ones(2, 4))
    ett.end()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
