"""A trainer whose batches differ in length; it prints each reason for which torch recompiled."""

import sys

import torch
from torch import Tensor
from torch._dynamo.utils import get_compilation_metrics

import ett_service as ett


class Model(torch.nn.Module):
    """An embedding, a mask and a window: what varies is a tensor, an int and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(32, 8)
        self.head = torch.nn.Linear(8, 1, bias=False)
        self.window = 2

    def forward(self, tokens: Tensor, mask: Tensor, scale: int) -> Tensor:
        """Return a loss of ``tokens`` (batch, length), masked, over the last ``window`` of them."""
        seen = self.head(self.embedding(tokens)).squeeze(-1) * mask
        # A break of the graph, as real models have: what is after it is compiled by itself.
        torch._dynamo.graph_break()  # noqa: SLF001
        recent: Tensor = seen[:, -self.window :] * scale
        return recent.sum()


def main() -> None:
    ett.init()
    model = Model()
    compiled = torch.compile(model, backend="aot_eager")
    with ett.train_loop():
        for step, length in enumerate((6, 9, 12, 7), start=1):
            model.window = length // 2
            tokens, mask = torch.zeros(4, length, dtype=torch.long), torch.ones(4, length)
            compiled(tokens, mask, length).backward()
            ett.step(step)
    ett.end()
    for record in get_compilation_metrics():
        if record.recompile_reason:
            sys.stdout.write(record.recompile_reason.partition("\n")[0] + "\n")


if __name__ == "__main__":
    main()
