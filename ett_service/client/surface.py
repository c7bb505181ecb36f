"""What ``import ett_service`` gives a trainer: the list of its public names."""

from ett_service.client import __version__
from ett_service.client.automatic import auto
from ett_service.client.reporting.checkpoint import checkpoint, restored
from ett_service.client.reporting.loop import data, train_loop
from ett_service.client.reporting.phase import phase, stage
from ett_service.client.session import end, flush, init, step

__all__ = [
    "__version__",
    "auto",
    "checkpoint",
    "data",
    "end",
    "flush",
    "init",
    "phase",
    "restored",
    "stage",
    "step",
    "train_loop",
]
