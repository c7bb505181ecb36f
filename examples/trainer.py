"""Train a small transformer to copy text, through a crash, and tell the service what time went on.

    ett run --job copy -- torchrun --standalone --max-restarts=1 examples/trainer.py --folder kept

It is a trainer as anybody writes one: a compiled model under DDP, a DataLoader with a worker,
distributed checkpoints. What it says to the service is every line with ``ett.``; compiles, saves,
loads and the making of the process group tell of themselves. In its first life the process kills
itself between two checkpoints; torchrun starts it again, and it goes on from the last one.
"""

import argparse
import os
import shutil
import signal
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import ett_service as ett

CHARACTERS = 32
TEXT = 16  # characters to copy
LEARNING_RATE = 4e-3


class Copies(Dataset[Tensor]):
    """Random texts, each followed by itself. A text depends on its number only."""

    def __getitem__(self, number: int) -> Tensor:
        drawn = torch.Generator().manual_seed(number)
        text = torch.randint(CHARACTERS, (TEXT,), generator=drawn)
        return torch.cat([text, text])


class Transformer(nn.Module):
    """Predicts the next character at every place."""

    def __init__(self, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, width)
        self.places = nn.Parameter(torch.randn(2 * TEXT - 1, width) / width**0.5)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.out = nn.Linear(width, CHARACTERS)
        mask = nn.Transformer.generate_square_subsequent_mask(2 * TEXT - 1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, texts: Tensor) -> Tensor:
        hidden = self.characters(texts) + self.places
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask, is_causal=True)
        logits: Tensor = self.out(hidden)
        return logits


@dataclass(frozen=True)
class Training:
    """What is trained, and where its checkpoints lie."""

    model: nn.Module
    compiled: nn.Module
    optimizer: torch.optim.Optimizer
    folder: Path

    def save(self, step: int) -> None:
        """Save all state. A save that is cut short leaves nothing that could be taken for one."""
        draft = self.folder / f"draft-{step}"
        dcp.save(self._state(), checkpoint_id=draft)  # type: ignore[attr-defined]
        if dist.get_rank() == 0:
            draft.rename(self.folder / f"step-{step}")
        dist.barrier()

    def resume(self) -> int:
        """Load the last checkpoint, if there is one, and return the step that it follows."""
        steps = [int(path.name.removeprefix("step-")) for path in self.folder.glob("step-*")]
        if not steps:
            return 0
        last = max(steps)
        state = self._state()
        dcp.load(state, checkpoint_id=self.folder / f"step-{last}")  # type: ignore[attr-defined]
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        ett.restored(last)
        return last

    def _state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}


@record
def main() -> None:
    """Train one life of the job, from its last checkpoint to its end or its crash."""
    args = arguments()
    ett.init(job="copy", model="copy-transformer", kind="example")
    with ett.stage("device_init"):
        torch.manual_seed(0)
    dist.init_process_group("gloo")
    with ett.stage("train_module_creation"):
        training = creation(args.folder)
    step = training.resume()
    say(f"resumes after step {step}" if step else "starts from scratch")
    train(training, step, args)
    with ett.phase("shutdown"):
        with ett.stage("model_publish"):
            publish(training)
        with ett.stage("teardown"):
            dist.destroy_process_group()
    ett.end("completed", final=True)


def train(training: Training, done: int, args: argparse.Namespace) -> None:
    """Train from the step after *done* to the last."""
    say("compiles its model in the first step")
    for step, texts in enumerate(ett.train_loop(batches(done, args)), done + 1):
        loss = train_step(training, texts)
        ett.step(step, samples=step * args.batch * dist.get_world_size())
        if step % args.evaluate_every == 0:
            with ett.phase("evaluation"):
                right = evaluate(training.model, args.batch)
            say(f"step {step:4}  loss {loss.item():.3f}  copied right {right:4.0%}")
        if step % args.checkpoint_every == 0:
            with ett.checkpoint(step):
                training.save(step)
        if step == args.crash_at and is_first_life():
            since = step % args.checkpoint_every
            say(f"step {step:4}  kills itself, {since} steps after a checkpoint")
            os.kill(os.getpid(), signal.SIGKILL)


def train_step(training: Training, texts: Tensor) -> Tensor:
    """Learn from one batch and return its loss."""
    predicted = training.compiled(texts[:, :-1])[:, TEXT - 1 :]
    loss = cross_entropy(predicted.flatten(0, 1), texts[:, TEXT:].flatten())
    training.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    training.optimizer.step()
    return loss


@torch.no_grad()
def evaluate(model: nn.Module, batch: int) -> float:
    """Return the share of characters that are copied right, in texts never trained on."""
    unseen = Copies()
    texts = torch.stack([unseen[-1 - number] for number in range(batch)])
    predicted = model(texts[:, :-1])[:, TEXT - 1 :].argmax(dim=-1)
    right: Tensor = (predicted == texts[:, TEXT:]).float().mean()
    return right.item()


def batches(done: int, args: argparse.Namespace) -> DataLoader[Tensor]:
    """Return what is left to train on: the same texts at the same steps in every life."""
    step_texts = args.batch * dist.get_world_size()
    left = range(
        done * step_texts + dist.get_rank(), args.steps * step_texts, dist.get_world_size()
    )
    return DataLoader(
        Copies(), args.batch, sampler=left, num_workers=1, multiprocessing_context="fork"
    )


def creation(folder: Path) -> Training:
    """Make the model, its compiled form and its optimizer."""
    folder.mkdir(parents=True, exist_ok=True)
    model = Transformer()
    compiled = DistributedDataParallel(torch.compile(model, backend=backend()))
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    return Training(model, compiled, optimizer, folder)


def backend() -> str:
    """Choose the compiler: inductor writes C++, which takes a compiler and Python's headers."""
    missing = [
        what
        for what, is_there in (
            ("a C++ compiler", shutil.which(os.environ.get("CXX", "g++"))),
            ("Python's headers", Path(sysconfig.get_path("include"), "Python.h").exists()),
        )
        if not is_there
    ]
    if not missing:
        return "inductor"
    say(f"{' and '.join(missing)} not found: compiles with aot_eager instead of inductor")
    return "aot_eager"


def publish(training: Training) -> None:
    """Write the model where others may take it from."""
    if dist.get_rank() == 0:
        torch.save(training.model.state_dict(), training.folder / "model.pt")


def is_first_life() -> bool:
    """Whether torchrun has not restarted this process yet."""
    return os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"


def say(text: str) -> None:
    """Print a line, once for all ranks, at once."""
    if os.environ["RANK"] == "0":
        print(f"trainer: {text}", flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=32, help="texts a step and rank")
    parser.add_argument("--checkpoint-every", type=int, default=200, metavar="STEPS")
    parser.add_argument("--evaluate-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--crash-at", type=int, default=380, metavar="STEP", help="0: never")
    parser.add_argument(
        "--folder", type=Path, required=True, help="where checkpoints lie, to be resumed from"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
